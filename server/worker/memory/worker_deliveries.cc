#include "server/worker/memory/worker_deliveries.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/memory/delivery.h"
#include "server/worker/completion.h"
#include "server/worker/stream_words.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// Each slot begins with its word, which has that cache line to itself. The bytes follow.
constexpr uint64_t kHeadBytes = 64;
constexpr uint64_t kSmallSlotBytes = kHeadBytes + kSmallDeliveryBytesMax;
constexpr uint64_t kLargeSlotBytes = kHeadBytes + kDeliveryBytesMax;

}  // namespace

// Small slots come first. The mutex of WorkerDeliveries guards all of this but the bytes.
struct WorkerDeliveries::Slots {
  static constexpr uint64_t kBytes = kSmallDeliveriesMax * kSmallSlotBytes + kLargeDeliveriesMax * kLargeSlotBytes;

  explicit Slots(std::shared_ptr<StreamWords> known) : known(std::move(known)) {
    for (size_t slot = kSmallDeliveriesMax + kLargeDeliveriesMax; slot > 0; --slot) Free(slot - 1);
  }

  std::vector<size_t>& FreeOf(bool small) { return small ? free_small : free_large; }
  void Free(size_t slot) { FreeOf(slot < kSmallDeliveriesMax).push_back(slot); }
  uint64_t Offset(size_t slot) const {
    if (slot < kSmallDeliveriesMax) return slot * kSmallSlotBytes;
    return kSmallDeliveriesMax * kSmallSlotBytes + (slot - kSmallDeliveriesMax) * kLargeSlotBytes;
  }
  std::atomic_ref<uint64_t> Word(size_t slot) const {
    return std::atomic_ref(*reinterpret_cast<uint64_t*>(known->memory() + Offset(slot)));
  }
  CUdeviceptr DeviceWord(size_t slot) const { return known->device() + Offset(slot); }
  std::byte* Bytes(size_t slot) const { return known->memory() + Offset(slot) + kHeadBytes; }

  const std::shared_ptr<StreamWords> known;
  std::vector<size_t> free_small;
  std::vector<size_t> free_large;
};

CUresult WorkerDeliveries::Prepare(CallContext& call) {
  const bool plain = call.holder() == HandleId(call.header().context);
  return plain && SlotsOf(worker_.CurrentContext()) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

void WorkerDeliveries::Start(CallContext& call, HandleId id, CUstream stream, uint64_t number, CUdeviceptr source,
                             uint64_t bytes) {
  const DriverTable& driver = worker_.driver();
  CUcontext own = worker_.CurrentContext();
  const bool legacy = stream == nullptr || stream == CU_STREAM_LEGACY;
  if (!legacy && driver.cuStreamGetCtx(stream, &own) != CUDA_SUCCESS) own = nullptr;
  const bool plain = own == worker_.CurrentContext() && call.holder() == HandleId(call.header().context);
  Delivery delivery{number, bytes, plain ? SlotsOf(own) : nullptr};
  if (delivery.slots == nullptr) return Refuse(call, number, CUDA_ERROR_NOT_SUPPORTED);
  const StreamKey key = KeyOfStream(call, id, stream);
  if (!Enter(key, delivery)) return Refuse(call, number, CUDA_ERROR_OUT_OF_MEMORY);

  // No lock is held here. The driver may make this thread wait for a host function, and the client is sent bytes before that
  // function runs.
  CUresult result = driver.cuMemcpyDtoHAsync_v2(delivery.slots->Bytes(delivery.slot), source, bytes, stream);
  if (result == CUDA_SUCCESS) {
    const CUdeviceptr word = delivery.slots->DeviceWord(delivery.slot);
    result = driver.cuStreamWriteValue64_v2(stream, word, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
  }
  worker_.completion().NoteCopy(stream);
  if (result == CUDA_SUCCESS) {
    std::function<void(CUresult)> done = [this, key, number](CUresult outcome) { Ended(key, number, outcome); };
    if (!call.wants_reply()) {
      result = worker_.completion().WhenDone(stream, done);
      if (result == CUDA_SUCCESS) return call.Finish(CUDA_SUCCESS);
    } else {
      auto deferred = call.Defer();
      result = worker_.completion().WhenDone(stream, [done, deferred](CUresult outcome) mutable {
        done(outcome);
        deferred.Finish(outcome);
      });
      if (result == CUDA_SUCCESS) return;
    }
  }
  Drop(key, number, result);
  call.Finish(result);
}

void WorkerDeliveries::Refuse(CallContext& call, uint64_t number, CUresult result) {
  worker_.SendNotice(NoticeKind::kDelivery, number, result);
  call.Finish(result);
}

void WorkerDeliveries::Tell() {
  if (count_.load(std::memory_order_acquire) == 0) return;
  MutexLock lock(mutex_);
  for (auto entry = lines_.begin(); entry != lines_.end();) {
    Line& line = entry->second;
    while (!line.empty() && line.front().slots->Word(line.front().slot).load(std::memory_order_acquire) != 0) TellFirst(line);
    entry = line.empty() ? lines_.erase(entry) : std::next(entry);
  }
}

void WorkerDeliveries::TellFirst(Line& line) {
  const Delivery& first = line.front();
  worker_.SendNotice(NoticeKind::kDelivery, first.number, CUDA_SUCCESS, std::span(first.slots->Bytes(first.slot), first.bytes));
  first.slots->Free(first.slot);
  line.pop_front();
  count_.fetch_sub(1, std::memory_order_release);
}

std::shared_ptr<WorkerDeliveries::Slots> WorkerDeliveries::SlotsOf(CUcontext context) {
  if (context == nullptr) return nullptr;
  {
    MutexLock lock(mutex_);
    if (const auto found = slots_.find(context); found != slots_.end()) return found->second;
  }
  // Only the executor gets here, so nobody else makes the slots meanwhile.
  auto known = StreamWords::Make(worker_.driver(), Slots::kBytes,
                                 "small copies to pinned memory have their streams wait for the network instead");
  auto slots = known == nullptr ? nullptr : std::make_shared<Slots>(std::move(known));
  MutexLock lock(mutex_);
  slots_[context] = slots;
  return slots;
}

bool WorkerDeliveries::Enter(const StreamKey& key, Delivery& delivery) {
  MutexLock lock(mutex_);
  std::vector<size_t>& free = delivery.slots->FreeOf(delivery.bytes <= kSmallDeliveryBytesMax);
  if (free.empty()) return false;
  delivery.slot = free.back();
  free.pop_back();
  delivery.slots->Word(delivery.slot).store(0, std::memory_order_relaxed);
  lines_[key].push_back(delivery);
  count_.fetch_add(1, std::memory_order_release);
  return true;
}

void WorkerDeliveries::Ended(const StreamKey& key, uint64_t number, CUresult result) {
  if (result != CUDA_SUCCESS) return Drop(key, number, result);
  before_();
  MutexLock lock(mutex_);
  const auto found = lines_.find(key);
  if (found == lines_.end()) return;
  Line& line = found->second;
  const auto own = std::find_if(line.begin(), line.end(), [number](const Delivery& one) { return one.number == number; });
  if (own == line.end()) return;  // sent already
  for (auto left = own - line.begin() + 1; left > 0; --left) TellFirst(line);
  if (line.empty()) lines_.erase(found);
}

void WorkerDeliveries::Drop(const StreamKey& key, uint64_t number, CUresult result) {
  MutexLock lock(mutex_);
  const auto line = lines_.find(key);
  if (line == lines_.end()) return;
  const auto has_number = [number](const Delivery& one) { return one.number == number; };
  if (std::erase_if(line->second, has_number) == 0) return;  // sent already: the copy was done before the context failed
  if (line->second.empty()) lines_.erase(line);
  worker_.SendNotice(NoticeKind::kDelivery, number, result);
  count_.fetch_sub(1, std::memory_order_release);
}

void WorkerDeliveries::EndContext(CUcontext context) {
  std::shared_ptr<Slots> slots;
  {
    MutexLock lock(mutex_);
    const auto found = slots_.find(context);
    if (found == slots_.end()) return;
    slots = std::move(found->second);
    slots_.erase(found);
  }
  if (slots != nullptr) slots->known->EndContext(worker_.driver());
}

}  // namespace tessera
