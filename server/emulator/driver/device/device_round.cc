#include "server/emulator/driver/device/device_round.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace tessera::emulator {

std::optional<uint64_t> DeviceRound::Look(uint64_t now_us) {
  for (;;) {
    const uint64_t word = page_.turn.load();
    const DeviceTurn turn = DeviceTurn::Of(word);
    if (word != seen_word_ || seen_since_us_ == 0) {
      seen_word_ = word;
      seen_since_us_ = now_us;
    }
    if (turn.slot == slot_) {
      if (turn.end_us <= now_us + 2 * kDeviceSliceUs) return turn.end_us;
      // No slice is as long as that.
      Change(word, {slot_, now_us + kDeviceSliceUs});
      continue;
    }
    if (own().wants == 0) Want(true);  // it was left out
    const bool given_up = turn.slot != DeviceTurn::kNobody && now_us - seen_since_us_ >= kGraceUs;
    if (turn.slot != DeviceTurn::kNobody && !given_up) return std::nullopt;
    uint32_t next = slot_;
    if (given_up) {
      page_.slots[turn.slot].wants = 0;
      next = NextAfter(turn.slot);
    }
    if (Change(word, {next, now_us + kDeviceSliceUs}) && next != slot_) Signal(next);
  }
}

std::optional<uint64_t> DeviceRound::Pass(uint64_t now_us, uint64_t at_us) {
  const uint64_t word = page_.turn.load();
  const DeviceTurn own_turn = DeviceTurn::Of(word);
  if (own_turn.slot != slot_) return std::nullopt;
  const uint32_t next = NextAfter(slot_);
  const uint64_t began_us = own_turn.end_us - std::min(own_turn.end_us, kDeviceSliceUs);
  const uint64_t earliest_us = std::max(now_us - std::min(now_us, kLagMaxUs), began_us);
  const DeviceTurn turn{next, std::min(std::max(at_us, earliest_us), now_us + 1) + kDeviceSliceUs};
  if (!Change(word, turn)) return std::nullopt;
  if (next == slot_) return turn.end_us;
  if (next != DeviceTurn::kNobody) Signal(next);
  return std::nullopt;
}

std::optional<uint64_t> DeviceRound::Restart(uint64_t now_us) {
  const uint64_t word = page_.turn.load();
  const DeviceTurn turn{slot_, now_us + kDeviceSliceUs};
  if (DeviceTurn::Of(word).slot != slot_ || !Change(word, turn)) return std::nullopt;
  return turn.end_us;
}

uint32_t DeviceRound::NextAfter(uint32_t slot) const {
  const uint32_t end = std::max(std::min(slots_end_.load(), kDeviceSlotsMax), slot_ + 1);
  for (uint32_t step = 1; step <= end; ++step) {
    const uint32_t other = (slot + step) % end;
    if (page_.slots[other].wants != 0) return other;
  }
  return DeviceTurn::kNobody;
}

bool DeviceRound::Change(uint64_t from_word, const DeviceTurn& to) {
  return page_.turn.compare_exchange_strong(from_word, to.word());
}

void DeviceRound::Signal(uint32_t slot) {
  std::atomic<uint32_t>& signal = page_.slots[slot].signal;
  signal.fetch_add(1);
  syscall(SYS_futex, &signal, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

uint64_t DeviceRound::PatienceUs(uint64_t now_us) const {
  const uint64_t waited_us = now_us - std::min(now_us, seen_since_us_);
  return std::min(kGraceUs - std::min(waited_us, kGraceUs) + 100, kGraceUs / 3);
}

void DeviceRound::Wait(uint32_t seen, uint64_t timeout_us) const {
  const timespec timeout{static_cast<time_t>(timeout_us / 1'000'000), static_cast<long>(timeout_us % 1'000'000 * 1000)};
  syscall(SYS_futex, &page_.slots[slot_].signal, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

}  // namespace tessera::emulator
