#include "server/emulator/driver/base/threads.h"

#include <sys/resource.h>

#include <thread>
#include <utility>

namespace tessera::emulator {
namespace {

// A GPU's work takes no processor from the program, the server and what is between them. Here it would: a copy's many steps, each
// of another process, would wait for some kernel's time slice.
constexpr int kNice = 5;

}  // namespace

void Threads::Run(std::function<void()> work) {
  std::unique_lock lock(mutex_);
  work_.push_back(std::move(work));
  if (idle_ >= work_.size()) {
    lock.unlock();
    wake_.notify_one();
    return;
  }
  std::function<void()> own = std::move(work_.back());
  work_.pop_back();
  lock.unlock();
  std::thread([this, own = std::move(own)]() mutable { Loop(std::move(own)); }).detach();
}

void Threads::Loop(std::function<void()> work) {
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNice);  // of this thread, and of those that it starts
  while (true) {
    work();
    work = nullptr;
    std::unique_lock lock(mutex_);
    ++idle_;
    wake_.wait(lock, [this] { return !work_.empty(); });
    --idle_;
    work = std::move(work_.back());
    work_.pop_back();
  }
}

}  // namespace tessera::emulator
