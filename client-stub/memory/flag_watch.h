// Watches host memory of which the server has a copy, while work runs that uses it. It looks again and again whether the program
// changed a single word. So a kernel that waits for a flag sees it, although it was launched long before.
//
// Looking takes at most a tenth of a processor. It stops once such work is known to be done (LookThread).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "protocol/memory/look_thread.h"

namespace tessera {

class FlagWatch {
 public:
  // `look` runs on a thread of the watch, and may wait. The destructor waits for a look that is under way.
  explicit FlagWatch(std::function<void()> look);

  // The device is about to get one more piece of work. Any thread.
  void Began();
  // `count` pieces of work, in all, are done. Any thread.
  void Ended(uint64_t count);

 private:
  std::atomic<uint64_t> begun_{0};  // pieces of work
  std::atomic<uint64_t> ended_{0};  // at least so many of them
  LookThread looks_;                // last: it uses the others
};

}  // namespace tessera
