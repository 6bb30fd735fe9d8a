#include "client-stub/shadow_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "client-stub/host_memory.h"
#include "client-stub/session.h"
#include "client-stub/thread_state.h"
#include "generated/messages/host_memory.h"

namespace tessera {

HeldShadow::~HeldShadow() {
  if (!lost_) pool_.Return(shadow_);
}

CUresult ShadowPool::Take(Call& call, uint64_t bytes, std::shared_ptr<HeldShadow>* held) {
  if (bytes > HostMemory::kBytesMax) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  Shadow shadow{0, std::bit_ceil(std::max(bytes, HostMemory::kAlignmentBytes)), call.owner_context()};
  Sweep(call.session());
  {
    MutexLock lock(mutex_);
    auto& free = free_[shadow.context.value()];
    if (const auto found = free.find(shadow.bytes); found != free.end()) {
      shadow.address = found->second;
      free.erase(found);
    }
  }
  if (shadow.address == 0) {
    if (const CUresult result = Make(call, &shadow); result != CUDA_SUCCESS) return result;
  }
  *held = std::make_shared<HeldShadow>(*this, shadow);
  return CUDA_SUCCESS;
}

CUresult ShadowPool::Make(Call& call, Shadow* shadow) {
  HostMemory::Placed placed;
  if (const CUresult result = memory_.Place(shadow->context, shadow->bytes, &placed); result != CUDA_SUCCESS) {
    return call.Fail(result);
  }
  if (placed.segment != 0) {
    cuMemHostAllocRequest request;
    request.segment = placed.segment;
    request.address = placed.segment_range.base;
    request.segment_bytes = placed.segment_range.bytes;
    if (const CUresult result = call.SyncAs(request); result != CUDA_SUCCESS) {
      memory_.Abandon(placed);
      return result;
    }
  }
  memory_.CommitUnseen(placed);
  shadow->address = placed.block.base;
  return CUDA_SUCCESS;
}

ShadowPool::StreamKey ShadowPool::KeyOf(Call& call, HandleId stream) {
  const bool own = stream.value() == reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD);
  return {call.owner_context().value(), stream.value(), own ? call.thread().number : 0};
}

CUresult ShadowPool::TakeInOrder(Call& call, HandleId stream, uint64_t bytes, std::shared_ptr<HeldShadow>* shadow) {
  {
    MutexLock lock(mutex_);
    const auto found = in_order_.find(KeyOf(call, stream));
    if (found != in_order_.end()) {
      *shadow = found->second.lock();
      in_order_.erase(found);  // nobody else's until this copy is all there
    }
  }
  if (*shadow != nullptr && (*shadow)->bytes() >= bytes) return CUDA_SUCCESS;
  shadow->reset();
  return Take(call, bytes, shadow);
}

void ShadowPool::LeaveInOrder(Call& call, HandleId stream, const std::shared_ptr<HeldShadow>& shadow) {
  MutexLock lock(mutex_);
  std::erase_if(in_order_, [](const auto& entry) { return entry.second.expired(); });
  in_order_[KeyOf(call, stream)] = shadow;
}

void ShadowPool::HoldUntil(uint64_t mark, std::shared_ptr<HeldShadow> shadow) {
  MutexLock lock(mutex_);
  pending_.push_back(Pending{std::move(shadow), mark});
}

void ShadowPool::Return(const Shadow& shadow) {
  MutexLock lock(mutex_);
  const auto free = free_.find(shadow.context.value());
  if (free != free_.end()) free->second.emplace(shadow.bytes, shadow.address);
}

void ShadowPool::Sweep(Session& session) {
  std::vector<std::shared_ptr<HeldShadow>> unused;  // returned without the lock
  MutexLock lock(mutex_);
  for (size_t i = 0; i < pending_.size();) {
    if (!session.marks().Passed(pending_[i].mark)) {
      ++i;
      continue;
    }
    session.marks().Close(pending_[i].mark);
    unused.push_back(std::move(pending_[i].shadow));
    std::swap(pending_[i], pending_.back());
    pending_.pop_back();
  }
}

void ShadowPool::EndContext(HandleId context) {
  MutexLock lock(mutex_);
  free_.erase(context.value());
  std::erase_if(in_order_, [&](const auto& entry) { return std::get<0>(entry.first) == context.value(); });
}

}  // namespace tessera
