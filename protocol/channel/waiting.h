// Waiting for another process: spin for a bounded, adapting time, then sleep in the kernel.
//
// Spinning answers in a tenth of a microsecond where a sleep costs tens, but every spinner takes a core from somebody,
// possibly from the very peer it waits for. So the time spent spinning adapts to success per place of waiting, drops when
// this process has more waiters than the machine has cores, and ends when the spinning thread notices that it was itself taken
// off its core for a good part of the time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>

#include "protocol/base/clock.h"
#include "protocol/base/status.h"

namespace tessera {

// Asked by a waiting thread: Ok to go on waiting, else how the wait ends. Must not block. An empty function never stops.
using StopPredicate = std::function<Status()>;

inline constexpr uint64_t kNoDeadline = std::numeric_limits<uint64_t>::max();
// A sleeping thread asks its StopPredicate at least this often: half of what noticing a dead peer may take (100 ms).
inline constexpr uint64_t kWaitSliceNs = 50'000'000;

// How many cores this process may use.
uint32_t CoreCount();

// How long to spin at one place. Any number of threads may share one.
class AdaptiveSpin {
 public:
  // Longer than one thread's wait while all others of its chain sleep. Over a link four threads hand on to each other. A turn
  // takes 14 to 22 us while they spin, and 66 to 86 us while each wakes the next (16 cores, an H200). With a bound between these
  // (50 us) a thread that had gone to sleep never learned that spinning pays.
  static constexpr uint64_t kNsMax = 150'000;
  static constexpr uint64_t kNsMin = 500;
  // For waits whose ends come from the GPU, on a machine with cores to spare.
  static constexpr uint64_t kLongNsMax = 10'000'000;
  // A spinning thread was off its core if so much time passed between two looks at the clock. It stops spinning when such times
  // add up to more than 1/kPreemptedShare of the wait: somebody else needs the core. A virtual machine's cores are away now and
  // then anyway, a few times in a wait of milliseconds.
  static constexpr uint64_t kPreemptedNs = 20'000;
  static constexpr uint64_t kPreemptedShare = 8;
  // After failures one wait in so many spins to the full bound again, to find out whether that pays now.
  static constexpr uint32_t kProbeEvery = 32;

  // At most `ns_max`.
  explicit AdaptiveSpin(uint64_t ns_max = kNsMax) : ns_max_(ns_max), limit_ns_(ns_max) {}

  // kLongNsMax where this process may use eight cores or more, else kNsMax.
  static uint64_t LongNsMax();

  // Spins until `ready()` is true; false when the limit or `until_ns` was reached first, and the caller should sleep or go on
  // with something else. `clock()` is the time in ns: tests have one of their own.
  template <typename Ready>
  bool Spin(const Ready& ready, uint64_t until_ns = kNoDeadline) {
    return Spin(ready, MonotonicNs, until_ns);
  }
  template <typename Ready, typename Clock>
  bool Spin(const Ready& ready, const Clock& clock, uint64_t until_ns = kNoDeadline) {
    for (int i = 0; i < kFreeLooks; ++i) {
      if (ready()) return true;
      CpuRelax();
    }
    const uint64_t limit_ns = Begin();
    const uint64_t start_ns = clock();
    uint64_t last_ns = start_ns;
    uint64_t lost_ns = 0;
    while (last_ns - start_ns < limit_ns && last_ns < until_ns) {
      for (int i = 0; i < kLooksPerClock; ++i) {
        if (ready()) {
          End(Outcome::kReady, last_ns - start_ns);
          return true;
        }
        CpuRelax();
      }
      const uint64_t now_ns = clock();
      if (now_ns - last_ns > kPreemptedNs) lost_ns += now_ns - last_ns;
      if (lost_ns * kPreemptedShare > now_ns - start_ns) {
        const bool late = ready();
        End(Outcome::kPreempted, now_ns - start_ns);
        return late;
      }
      last_ns = now_ns;
    }
    End(last_ns < until_ns ? Outcome::kLimit : Outcome::kDeadline, last_ns - start_ns);
    return false;
  }

  uint64_t limit_ns() const { return limit_ns_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kFreeLooks = 16;
  static constexpr int kLooksPerClock = 16;

  // Counts this thread in as a spinner and says how long it may; End() counts it out and adapts the limit.
  uint64_t Begin();
  enum class Outcome { kReady, kLimit, kPreempted, kDeadline };
  void End(Outcome outcome, uint64_t spun_ns);

  const uint64_t ns_max_;
  std::atomic<uint64_t> limit_ns_;
  std::atomic<uint32_t> waits_{0};
};

// Sleeps while the 32-bit word still has the value `expected`, at most `timeout_ns` (futex(2), between processes). May
// return early for no reason.
void FutexWait(const void* word, uint32_t expected, uint64_t timeout_ns);
// Wakes every thread, of any process, that sleeps on the word.
void FutexWakeAll(const void* word);

// Sleeps in slices until ready() or the deadline or stop() ends it. `sleep(timeout_ns)` sleeps at most that long; it must
// return at once when ready() became true before it slept.
template <typename Ready, typename Sleep>
Status SleepUntil(const Ready& ready, const Sleep& sleep, uint64_t deadline_ns, const StopPredicate& stop) {
  for (;;) {
    if (ready()) return Status::Ok();
    if (stop) {
      Status status = stop();
      if (!status.ok()) {
        if (ready()) return Status::Ok();  // what the peer did before it left counts
        return status;
      }
    }
    uint64_t timeout_ns = kWaitSliceNs;
    if (deadline_ns != kNoDeadline) {
      const uint64_t now_ns = MonotonicNs();
      if (now_ns >= deadline_ns) {
        if (ready()) return Status::Ok();
        return Status(StatusCode::kTimedOut, "the peer did not answer in time");
      }
      if (deadline_ns - now_ns < timeout_ns) timeout_ns = deadline_ns - now_ns;
    }
    sleep(timeout_ns);
  }
}

// The common form of every wait: spins, then sleeps; neither goes on after the deadline.
template <typename Ready, typename Sleep>
Status SpinThenSleep(AdaptiveSpin& spin, const Ready& ready, const Sleep& sleep, uint64_t deadline_ns,
                     const StopPredicate& stop) {
  if (spin.Spin(ready, deadline_ns)) return Status::Ok();
  return SleepUntil(ready, sleep, deadline_ns, stop);
}

}  // namespace tessera
