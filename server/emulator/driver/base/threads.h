// The threads that run the work of streams: as many as there is work at once, so work may block. They wait for more when it is
// done, until the process ends: whoever has them is never destroyed. Any thread may ask.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

namespace tessera::emulator {

class Threads {
 public:
  void Run(std::function<void()> work);

 private:
  void Loop(std::function<void()> work);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::function<void()>> work_;  // guarded by mutex_
  size_t idle_ = 0;                          // guarded by mutex_
};

}  // namespace tessera::emulator
