#include "client-stub/copier.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>

#include "client-stub/guest_thread.h"

namespace tessera {

Copier& Copier::Process() {
  static Copier* const copier = new Copier;
  return *copier;
}

Copier::Copier()
    : helpers_wanted_(std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kThreadsMax) - 1) {}

void Copier::Copy(void* to, const void* from, size_t bytes) {
  if (bytes < kParallelBytesMin || helpers_wanted_ == 0) {
    if (bytes > 0) std::memcpy(to, from, bytes);  // null is legal for nothing here, not for memcpy
    return;
  }
  auto* const first = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  ForEach((bytes + kPartBytes - 1) / kPartBytes, [&](size_t part) {
    const size_t offset = part * kPartBytes;
    std::memcpy(first + offset, source + offset, std::min(kPartBytes, bytes - offset));
  });
}

void Copier::ForEach(size_t count, const std::function<void(size_t part)>& work) {
  if (count < 2 || helpers_wanted_ == 0) {
    for (size_t part = 0; part < count; ++part) work(part);
    return;
  }
  Job job{work, count};
  {
    MutexLock lock(mutex_);
    StartThreads();
    jobs_.push_back(&job);
  }
  work_.notify_all();
  Work(job);
  // Nobody may enter the job any more, and those inside must have left, before it goes out of scope.
  MutexLock lock(mutex_);
  std::erase(jobs_, &job);
  while (job.users != 0) left_.wait(mutex_);
}

void Copier::Work(Job& job) {
  for (;;) {
    const size_t part = job.next.fetch_add(1, std::memory_order_relaxed);
    if (part >= job.parts) return;
    job.work(part);
  }
}

void Copier::StartThreads() {
  if (started_) return;
  started_ = true;
  for (size_t i = 0; i < helpers_wanted_; ++i) {
    try {
      StartGuestThread("tessera-copy", [this] { Loop(); }).detach();
      ++helpers_;
    } catch (const std::system_error&) {
      return;  // the caller copies alone, or with those that did start
    }
  }
}

void Copier::Loop() {
  MutexLock lock(mutex_);
  for (;;) {
    Job* job = nullptr;
    for (Job* one : jobs_) {
      if (one->next.load(std::memory_order_relaxed) < one->parts) {
        job = one;
        break;
      }
    }
    if (job == nullptr) {
      work_.wait(mutex_);
      continue;
    }
    ++job->users;
    mutex_.unlock();
    Work(*job);
    mutex_.lock();
    if (--job->users == 0) left_.notify_all();
  }
}

}  // namespace tessera
