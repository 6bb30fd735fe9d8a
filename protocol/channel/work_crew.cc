#include "protocol/channel/work_crew.h"

#include <bit>
#include <chrono>
#include <system_error>
#include <utility>

#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

// Until nobody is inside. One that lost its core keeps others waiting for long.
void AwaitNone(const std::atomic<size_t>& users) {
  constexpr int kLooks = 1'000;
  constexpr std::chrono::microseconds kSleep(20);
  for (int looks = 0; users.load(std::memory_order_seq_cst) != 0; ++looks) {
    if (looks < kLooks) {
      CpuRelax();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
  }
}

}  // namespace

WorkCrew::~WorkCrew() {
  over_.store(true, std::memory_order_seq_cst);
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    threads = std::move(threads_);
  }
  work_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void WorkCrew::ForEach(size_t count, const Work& work) {
  size_t place = 0;
  if (count >= 2 && helpers_ > 0) {
    if (!started_.load(std::memory_order_acquire)) StartThreads();
    while (place < kJobsMax && places_[place].taken.exchange(true, std::memory_order_acquire)) ++place;
  }
  if (count < 2 || helpers_ == 0 || place == kJobsMax) {
    for (size_t part = 0; part < count; ++part) work(0, part);
    return;
  }
  Job job{work, count};
  Place& at = places_[place];
  at.job.store(&job, std::memory_order_seq_cst);
  open_.fetch_or(1u << place, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst) != 0) WakeOne();
  Do(job, place, 0);
  // Nobody may enter the job any more, and those inside must have left, before it goes out of scope.
  at.job.store(nullptr, std::memory_order_seq_cst);
  AwaitNone(at.users);
  at.taken.store(false, std::memory_order_release);
}

void WorkCrew::Do(Job& job, size_t place, size_t lane) {
  for (;;) {
    const size_t part = job.next.fetch_add(1, std::memory_order_relaxed);
    if (part >= job.parts) return;
    if (part + 1 == job.parts) open_.fetch_and(~(1u << place), std::memory_order_relaxed);
    job.work(lane, part);
  }
}

void WorkCrew::Help(size_t lane) {
  const uint32_t open = open_.load(std::memory_order_acquire);
  if (open == 0) return;
  const auto place = static_cast<size_t>(std::countr_zero(open));
  Place& at = places_[place];
  at.users.fetch_add(1, std::memory_order_seq_cst);
  if (Job* const job = at.job.load(std::memory_order_seq_cst)) Do(*job, place, lane);
  at.users.fetch_sub(1, std::memory_order_release);
}

void WorkCrew::StartThreads() {
  MutexLock lock(mutex_);
  if (started_.load(std::memory_order_relaxed)) return;
  try {
    while (threads_.size() < helpers_) threads_.push_back(start_([this, lane = threads_.size() + 1] { Loop(lane); }));
  } catch (const std::system_error&) {
    // Out of threads: the caller works alone, or with those that did start.
  }
  started_.store(true, std::memory_order_release);
}

void WorkCrew::WakeOne() {
  { MutexLock lock(mutex_); }  // whoever counts as asleep and holds it is about to look once more
  work_.notify_one();
}

void WorkCrew::Loop(size_t lane) {
  const auto anything = [this] { return open_.load(std::memory_order_seq_cst) != 0 || over_.load(std::memory_order_seq_cst); };
  AdaptiveSpin spin;
  while (!over_.load(std::memory_order_seq_cst)) {
    if (spin.Spin(anything)) {
      Help(lane);
      continue;
    }
    {
      MutexLock lock(mutex_);
      asleep_.fetch_add(1, std::memory_order_seq_cst);
      while (!anything()) work_.wait(mutex_);
      asleep_.fetch_sub(1, std::memory_order_seq_cst);
    }
    // Each wakes the next, so that the caller wakes no more than one.
    if (asleep_.load(std::memory_order_relaxed) != 0) WakeOne();
    Help(lane);
  }
}

}  // namespace tessera
