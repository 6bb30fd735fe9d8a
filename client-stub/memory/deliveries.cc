#include "client-stub/memory/deliveries.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "client-stub/session/session.h"
#include "client-stub/streams/stream_state.h"
#include "generated/messages/service.h"
#include "protocol/memory/delivery.h"

namespace tessera {

Deliveries::Deliveries(Session& session) : session_(session) {
  if (!session.mirrored()) return;
  session.OnNotice(NoticeKind::kDelivery,
                   [this](const ReplyHeader& header, std::span<const std::byte> bytes) { Arrived(header, bytes); });
}

std::optional<CUresult> Deliveries::Copy(BasicCall& call, const UsedStream& stream, const Range& to, uint64_t from,
                                         const Send& send) {
  int writes_words = 0;
  if (!session_.mirrored() || to.bytes == 0 || to.bytes > kDeliveryBytesMax || SeveralServers() ||
      to.bytes + sizeof(ReplyHeader) > session_.welcome().sizes.reply_bytes / 4 ||  // the largest record
      stream.info.context != call.context() || stream.info.owner != stream.info.context ||
      session_.devices().Attribute(stream.info.device, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, &writes_words) !=
          CUDA_SUCCESS ||
      writes_words == 0) {
    return std::nullopt;
  }
  bool may = false;
  if (const CUresult asked = MayDeliver(call, stream, &may); asked != CUDA_SUCCESS) return asked;
  if (!may) return std::nullopt;
  tesseraDeliverRequest request;
  request.delivery = Enter(stream, to);
  if (request.delivery == 0) return std::nullopt;
  request.stream = stream.id;
  request.src = from;
  request.src_bytes = to.bytes;
  const CUresult result = send(request);
  if (result != CUDA_SUCCESS) Drop(request.delivery);
  return result;
}

CUresult Deliveries::MayDeliver(BasicCall& call, const UsedStream& stream, bool* may) {
  const uint64_t context = stream.info.context.value();
  {
    MutexLock lock(mutex_);
    if (const auto known = may_deliver_.find(context); known != may_deliver_.end()) {
      *may = known->second;
      return CUDA_SUCCESS;
    }
  }
  tesseraDeliverRequest question;
  question.stream = stream.id;
  const CUresult result = call.SyncOwn(question);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_SUPPORTED) return result;
  *may = result == CUDA_SUCCESS;
  MutexLock lock(mutex_);
  may_deliver_[context] = *may;
  return call.Fail(CUDA_SUCCESS);
}

template <typename Visit>
bool Deliveries::ForEachIn(const Range& range, const Visit& visit) {
  auto next = by_address_.lower_bound(range.base - std::min(range.base, kDeliveryBytesMax));
  while (next != by_address_.end() && next->first < range.end()) {
    const auto delivery = next++;
    const bool writes = delivery->first + delivery->second.bytes > range.base && !delivery->second.forgotten;
    if (writes && !visit(delivery)) return false;
  }
  return true;
}

uint64_t Deliveries::Enter(const UsedStream& stream, const Range& to) {
  const bool small = to.bytes <= kSmallDeliveryBytesMax;
  MutexLock lock(mutex_);
  if (small ? small_ == kSmallDeliveriesMax : large_ == kLargeDeliveriesMax) return 0;
  const auto excluded = excluded_.upper_bound(to.base);
  if (excluded != excluded_.begin() && std::prev(excluded)->second.contains(to.base)) return 0;
  const bool alone = ForEachIn(to, [&](auto delivery) { return delivery->second.stream == stream.info.number; });
  if (!alone) return 0;
  const uint64_t number = next_++;
  ++(small ? small_ : large_);
  by_number_[number] = by_address_.emplace(to.base, Delivery{number, to.bytes, stream.info.number, stream.info.context});
  used_.store(true, std::memory_order_relaxed);
  return number;
}

void Deliveries::Erase(Deliveries_::iterator delivery) {
  --(delivery->second.bytes <= kSmallDeliveryBytesMax ? small_ : large_);
  by_number_.erase(delivery->second.number);
  by_address_.erase(delivery);
}

void Deliveries::Drop(uint64_t number) {
  MutexLock lock(mutex_);
  if (const auto found = by_number_.find(number); found != by_number_.end()) Erase(found->second);
}

void Deliveries::Arrived(const ReplyHeader& header, std::span<const std::byte> bytes) {
  bool expected = true;
  {
    MutexLock lock(mutex_);
    const auto found = by_number_.find(header.extra);
    if (found == by_number_.end()) {
      expected = header.extra != 0 && header.extra < next_;  // its context has ended
    } else {
      const auto& [to, delivery] = *found->second;
      const bool done = header.result == CUDA_SUCCESS;
      expected = bytes.size() == (done ? PaddedRecordBytes(delivery.bytes) : 0);
      if (expected && done && !delivery.forgotten) std::memcpy(reinterpret_cast<void*>(to), bytes.data(), delivery.bytes);
      if (expected) Erase(found->second);
    }
  }
  if (!expected) session_.ProtocolViolation("a copy that nobody asked for, or of another size");
}

void Deliveries::Exclude(const Range& range) {
  MutexLock lock(mutex_);
  excluded_[range.base] = range;
  if (!ForEachIn(range, [](auto) { return false; })) late_.store(true, std::memory_order_release);
}

bool Deliveries::AnyLate() {
  if (!late_.load(std::memory_order_acquire)) return false;
  MutexLock lock(mutex_);
  for (const auto& [base, range] : excluded_) {
    if (!ForEachIn(range, [](auto) { return false; })) return true;
  }
  late_.store(false, std::memory_order_relaxed);
  return false;
}

void Deliveries::Admit(uint64_t base) {
  MutexLock lock(mutex_);
  excluded_.erase(base);
}

void Deliveries::Forget(const Range& range) {
  MutexLock lock(mutex_);
  ForEachIn(range, [](auto delivery) { return delivery->second.forgotten = true; });
}

void Deliveries::EndContext(HandleId context) {
  MutexLock lock(mutex_);
  may_deliver_.erase(context.value());
  for (auto next = by_address_.begin(); next != by_address_.end();) {
    const auto delivery = next++;
    if (delivery->second.context == context) Erase(delivery);
  }
}

}  // namespace tessera
