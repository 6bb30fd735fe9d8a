// While work runs that uses host memory which the server has a copy of, looks again and again whether the program changed a
// single word of it: a kernel that waits for a flag sees it, although its launch met the program long before.
//
// Looking takes at most a tenth of a processor, and happens only while such work is not known to be done (LookThread).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "protocol/memory/look_thread.h"

namespace tessera {

class FlagWatch {
 public:
  // `look` runs on a thread of the watch's own and may wait. The destructor waits for a look that is under way.
  explicit FlagWatch(std::function<void()> look);

  // One more piece of work is about to be given to the device. Any thread.
  void Began();
  // So many of them are done. Any thread.
  void Ended(uint64_t count);

 private:
  std::atomic<uint64_t> begun_{0};  // pieces of work
  std::atomic<uint64_t> ended_{0};  // at least so many of them
  LookThread looks_;                // last: it uses the others
};

}  // namespace tessera
