#include "client-stub/session/reply_slot.h"

#include "protocol/channel/waiting.h"

namespace tessera {

void ReplySlot::Complete(int32_t result, std::span<const std::byte> payload) {
  result_ = result;
  payload_.assign(payload.begin(), payload.end());
  if (state_.exchange(kDone, std::memory_order_acq_rel) == kAsleep) FutexWakeAll(&state_);
}

void ReplySlot::Sleep(uint64_t timeout_ns) {
  uint32_t waiting = kWaiting;
  state_.compare_exchange_strong(waiting, kAsleep, std::memory_order_acq_rel);
  if (waiting == kDone) return;
  FutexWait(&state_, kAsleep, timeout_ns);
}

}  // namespace tessera
