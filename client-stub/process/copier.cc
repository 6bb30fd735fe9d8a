#include "client-stub/process/copier.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "client-stub/process/guest_thread.h"
#include "client-stub/process/past_caches.h"
#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

// So many may be the machine's whole.
constexpr size_t kFewThreads = 2;

size_t ThreadsOf(size_t cores) {
  return std::max(std::min(cores, Copier::kThreadsOfFewCores), std::min(cores / 2, Copier::kThreadsMax));
}

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

Copier& Copier::Process() {
  static Copier* const copier = new Copier(ThreadsOf(std::max(1u, std::thread::hardware_concurrency())));
  return *copier;
}

void Copier::CopyBeside(void* to, const void* from, size_t bytes, size_t whole, Reader reader) {
  if (threads_ > kFewThreads) return CopyPiece(to, from, bytes, whole, reader);
  if (bytes > 0) std::memcpy(to, from, bytes);  // null is legal for nothing here, not for memcpy
}

void Copier::CopyPiece(void* to, const void* from, size_t bytes, size_t whole, Reader reader) {
  if (whole < kSharedBytesMin || bytes < 2 * kPartBytesMin || threads_ == 1) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return;
  }
  auto* const first = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  // Some for each thread: they are not equally fast.
  constexpr size_t kPartsEach = 4;
  const size_t part_bytes = std::clamp(bytes / (kPartsEach * threads_) & ~size_t{4095}, kPartBytesMin, kPartBytesMax);
  const bool past_caches = reader == Reader::kDevice && threads_ > kFewThreads;
  ForEach((bytes + part_bytes - 1) / part_bytes, [&](size_t part) {
    const size_t offset = part * part_bytes;
    const size_t size = std::min(part_bytes, bytes - offset);
    past_caches ? CopyPastCaches(first + offset, source + offset, size)
                : static_cast<void>(std::memcpy(first + offset, source + offset, size));
  });
}

void Copier::ForEach(size_t count, const std::function<void(size_t part)>& work) {
  size_t place = 0;
  if (count >= 2 && threads_ > 1) {
    if (!started_.load(std::memory_order_acquire)) StartThreads();
    while (place < kJobsMax && places_[place].taken.exchange(true, std::memory_order_acquire)) ++place;
  }
  if (count < 2 || threads_ == 1 || place == kJobsMax) {
    for (size_t part = 0; part < count; ++part) work(part);
    return;
  }
  Job job{work, count};
  Place& at = places_[place];
  at.job.store(&job, std::memory_order_seq_cst);
  open_.fetch_or(1u << place, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst) != 0) WakeOne();
  Work(job, place);
  // Nobody may enter the job any more, and those inside must have left, before it goes out of scope.
  at.job.store(nullptr, std::memory_order_seq_cst);
  AwaitNone(at.users);
  at.taken.store(false, std::memory_order_release);
}

void Copier::Work(Job& job, size_t place) {
  for (;;) {
    const size_t part = job.next.fetch_add(1, std::memory_order_relaxed);
    if (part >= job.parts) return;
    if (part + 1 == job.parts) open_.fetch_and(~(1u << place), std::memory_order_relaxed);
    job.work(part);
  }
}

bool Copier::Help() {
  const uint32_t open = open_.load(std::memory_order_acquire);
  if (open == 0) return false;
  const auto place = static_cast<size_t>(std::countr_zero(open));
  Place& at = places_[place];
  at.users.fetch_add(1, std::memory_order_seq_cst);
  if (Job* const job = at.job.load(std::memory_order_seq_cst)) Work(*job, place);
  at.users.fetch_sub(1, std::memory_order_release);
  return true;
}

void Copier::StartThreads() {
  MutexLock lock(mutex_);
  if (started_.load(std::memory_order_relaxed)) return;
  for (size_t i = 1; i < threads_; ++i) {
    try {
      StartGuestThread("tessera-copy", [this] { Loop(); }).detach();
    } catch (const std::system_error&) {
      break;  // the caller copies alone, or with those that did start
    }
  }
  started_.store(true, std::memory_order_release);
}

void Copier::WakeOne() {
  { MutexLock lock(mutex_); }  // whoever counts as asleep and holds it is about to look once more
  work_.notify_one();
}

void Copier::Loop() {
  const auto any = [this] { return open_.load(std::memory_order_seq_cst) != 0; };
  AdaptiveSpin spin;
  for (;;) {
    if (spin.Spin(any)) {
      Help();
      continue;
    }
    {
      MutexLock lock(mutex_);
      asleep_.fetch_add(1, std::memory_order_seq_cst);
      while (!any()) work_.wait(mutex_);
      asleep_.fetch_sub(1, std::memory_order_seq_cst);
    }
    // Each wakes the next, so that the caller wakes no more than one.
    if (asleep_.load(std::memory_order_relaxed) != 0) WakeOne();
    Help();
  }
}

}  // namespace tessera
