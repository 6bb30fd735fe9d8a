#include "server/emulator/driver/core/pace.h"

#include <time.h>

#include <algorithm>

#include "protocol/base/clock.h"
#include "server/emulator/driver/core/state.h"
#include "server/emulator/driver/device/device_time.h"

namespace tessera::emulator {
namespace {

constexpr uint64_t kLeastNs = 1'000'000;
// How soon the end of a context is noticed.
constexpr uint64_t kStepNs = 10'000'000;

void Sleep(uint64_t ns) {
  const timespec pause{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  nanosleep(&pause, nullptr);
}

}  // namespace

void Pace(const Context& context, const Command& command) {
  if (context.cancelled()) return;
  GetDriver().RandomPause();
  const uint64_t mb_per_s = GetOptions().slow_mb_per_s;
  if (mb_per_s == 0) return;
  const std::optional<uint64_t> bytes = command.paced_bytes();
  if (!bytes) return;
  LeaveDevice();  // other processes' kernels may run meanwhile
  const uint64_t end_ns = MonotonicNs() + std::max(kLeastNs, *bytes * 1000 / mb_per_s);
  for (uint64_t now_ns = MonotonicNs(); now_ns < end_ns && !context.cancelled(); now_ns = MonotonicNs()) {
    Sleep(std::min(end_ns - now_ns, kStepNs));
  }
}

}  // namespace tessera::emulator
