#include "protocol/channel/waiting.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace tessera {
namespace {

// Threads of this process that spin now, at any place.
std::atomic<uint32_t> g_spinners{0};

}  // namespace

uint32_t CoreCount() {
  static const uint32_t cores = [] {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
    return static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  }();
  return cores;
}

uint64_t AdaptiveSpin::Begin() {
  const uint32_t spinners = g_spinners.fetch_add(1, std::memory_order_relaxed) + 1;
  // On a single core the peer cannot run while we spin.
  if (CoreCount() == 1) return 0;
  uint64_t limit_ns = limit_ns_.load(std::memory_order_relaxed);
  const uint32_t wait = waits_.fetch_add(1, std::memory_order_relaxed);
  // The peer needs a core too: with as many spinners as cores one of them is in its way.
  if (spinners >= CoreCount()) {
    limit_ns = std::max(kNsMin, limit_ns / 2);
    limit_ns_.store(limit_ns, std::memory_order_relaxed);
  } else if (wait % kProbeEvery == kProbeEvery - 1) {
    limit_ns = ns_max_;
  }
  return limit_ns;
}

uint64_t AdaptiveSpin::LongNsMax() {
  constexpr uint32_t kCoresMin = 8;
  return CoreCount() >= kCoresMin ? kLongNsMax : kNsMax;
}

void AdaptiveSpin::End(Outcome outcome, uint64_t spun_ns) {
  g_spinners.fetch_sub(1, std::memory_order_relaxed);
  const uint64_t before_ns = limit_ns_.load(std::memory_order_relaxed);
  uint64_t limit_ns = before_ns;
  switch (outcome) {
    case Outcome::kPreempted: limit_ns = std::max(kNsMin, before_ns / 4); break;
    // Room for twice of what it took. A probe that found something raises the limit in one step; failures halve it again.
    case Outcome::kReady: limit_ns = std::max(before_ns, std::clamp(2 * spun_ns, kNsMin, ns_max_)); break;
    case Outcome::kLimit: limit_ns = std::max(kNsMin, before_ns / 2); break;
    case Outcome::kDeadline: break;  // says nothing of how long the wait would have taken
  }
  if (limit_ns != before_ns) limit_ns_.store(limit_ns, std::memory_order_relaxed);
}

void FutexWait(const void* word, uint32_t expected, uint64_t timeout_ns) {
  const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000), static_cast<long>(timeout_ns % 1'000'000'000)};
  syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

void FutexWakeAll(const void* word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace tessera
