#include "protocol/link/tls/tls_crew.h"

#include <algorithm>
#include <system_error>

#include "protocol/base/clock.h"
#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

// A caller that has run out of records looks so often whether its helpers have too: each has a record at most, some
// microseconds.
constexpr int kLooks = 2'000;

}  // namespace

TlsCrew::TlsCrew(size_t helpers) : helpers_(std::min(helpers, kHelpersMax)) {}

TlsCrew::~TlsCrew() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    over_ = true;
    ++posted_;
    threads = std::move(threads_);
    changed_.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
}

TlsCrew& TlsCrew::OfProcess() {
  // Never destroyed: links may outlive static objects.
  static TlsCrew& crew = *new TlsCrew(std::thread::hardware_concurrency() >= kCoresMin ? kHelpersMax : 0);
  return crew;
}

void TlsCrew::Share(size_t count, const std::function<void(size_t lane, size_t i)>& work) {
  Job job{work, count};
  if (helpers_ != 0 && count > 1) {
    MutexLock lock(mutex_);
    try {
      while (threads_.size() < helpers_) threads_.emplace_back([this, lane = threads_.size() + 1] { Help(lane); });
    } catch (const std::system_error&) {
      // Out of threads: those that there are, or none.
    }
    jobs_.push_back(&job);
    ++posted_;
    changed_.notify_all();
  }
  Work(job, 0);
  if (helpers_ == 0 || count <= 1) return;
  for (int i = 0; i < kLooks && job.helping.load() != 0; ++i) CpuRelax();
  MutexLock lock(mutex_);
  jobs_.remove(&job);
  while (job.helping.load() != 0) done_.wait(mutex_);
}

void TlsCrew::Work(Job& job, size_t lane) {
  for (size_t i; (i = job.next.fetch_add(1, std::memory_order_relaxed)) < job.count;) job.work(lane, i);
}

void TlsCrew::Help(size_t lane) {
  AdaptiveSpin spin;
  uint64_t seen = 0;
  for (;;) {
    // In a bulk transfer the next job is some microseconds away.
    const bool looked = spin.Spin([&] { return posted_.load() != seen; });
    Job* job = nullptr;
    {
      MutexLock lock(mutex_);
      for (;;) {
        if (over_) return;
        seen = posted_.load();
        const auto at = std::find_if(jobs_.begin(), jobs_.end(), [](const Job* one) { return one->Left(); });
        job = at == jobs_.end() ? nullptr : *at;
        if (job != nullptr || looked) break;
        changed_.wait(mutex_);
      }
      if (job == nullptr) continue;  // the others were faster
      ++job->helping;
    }
    Work(*job, lane);
    MutexLock lock(mutex_);
    if (--job->helping == 0) done_.notify_all();
  }
}

}  // namespace tessera
