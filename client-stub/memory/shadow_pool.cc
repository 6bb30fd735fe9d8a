#include "client-stub/memory/shadow_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "client-stub/memory/host_memory.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "generated/messages/host_memory.h"
#include "generated/messages/service.h"

namespace tessera {

HeldShadow::~HeldShadow() {
  if (!lost_) pool_.Return(shadow_);
}

bool HeldShadow::refused(Session& session) const {
  CUresult made = CUDA_SUCCESS;
  return shadow_.mark != 0 && session.marks().Passed(shadow_.mark, &made) && made != CUDA_SUCCESS;
}

CUresult ShadowPool::Take(BasicCall& call, uint64_t bytes, std::shared_ptr<HeldShadow>* held) {
  return Take(call, bytes, true, held);
}

CUresult ShadowPool::Take(BasicCall& call, uint64_t bytes, bool waits, std::shared_ptr<HeldShadow>* held) {
  if (bytes > HostMemory::kBytesMax) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  // What nobody waits for gets a segment of its own: other memory in it would depend on an answer that is not there yet.
  const uint64_t least = waits ? HostMemory::kAlignmentBytes : HostMemory::kSlabBlockBytesMax + 1;
  Shadow shadow{{}, std::bit_ceil(std::max(bytes, least)), call.owner_context()};
  Sweep(call.session());
  if (!TakeFree(call.session(), &shadow)) {
    if (const CUresult result = Make(call, waits, &shadow); result != CUDA_SUCCESS) return result;
  }
  *held = std::make_shared<HeldShadow>(*this, shadow);
  return CUDA_SUCCESS;
}

bool ShadowPool::TakeFree(Session& session, Shadow* shadow) {
  for (;;) {
    {
      MutexLock lock(mutex_);
      auto& free = free_[shadow->context.value()];
      const auto found = free.find(shadow->bytes);
      if (found == free.end()) return false;
      *shadow = found->second;
      free.erase(found);
    }
    CUresult made = CUDA_SUCCESS;
    if (shadow->mark == 0 || !session.marks().Passed(shadow->mark, &made)) return true;
    session.marks().Close(std::exchange(shadow->mark, 0));
    if (made == CUDA_SUCCESS) return true;
    memory_.Abandon(shadow->placed);
  }
}

CUresult ShadowPool::Make(BasicCall& call, bool waits, Shadow* shadow) {
  HostMemory::Placed& placed = shadow->placed;
  if (const CUresult result = memory_.Place(shadow->context, shadow->bytes, &placed); result != CUDA_SUCCESS) {
    return call.Fail(result);
  }
  CUresult result = CUDA_SUCCESS;
  if (placed.segment != 0 && waits) {
    cuMemHostAllocRequest request;
    request.segment = placed.segment;
    request.address = placed.segment_range.base;
    request.segment_bytes = placed.segment_range.bytes;
    result = call.SyncAs(request);
  } else if (placed.segment != 0) {
    tesseraShadowAttachRequest request;
    request.segment = placed.segment;
    request.address = placed.segment_range.base;
    request.segment_bytes = placed.segment_range.bytes;
    request.mark = shadow->mark = call.session().marks().Open();
    result = call.AsyncAs(request);
    if (result != CUDA_SUCCESS) call.session().marks().Close(shadow->mark);
  }
  if (result != CUDA_SUCCESS) {
    memory_.Abandon(placed);
    return result;
  }
  memory_.CommitUnseen(placed);
  return CUDA_SUCCESS;
}

ShadowPool::StreamKey ShadowPool::KeyOf(BasicCall& call, HandleId stream) {
  const bool own =
      stream.value() == reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD) || (stream.is_null() && call.per_thread_stream());
  return {call.owner_context().value(), stream.value(), own ? call.thread().number : 0};
}

CUresult ShadowPool::TakeInOrder(BasicCall& call, HandleId stream, uint64_t bytes, std::shared_ptr<HeldShadow>* shadow) {
  {
    MutexLock lock(mutex_);
    const auto found = in_order_.find(KeyOf(call, stream));
    if (found != in_order_.end()) {
      *shadow = found->second.lock();
      in_order_.erase(found);  // nobody else's until this copy is all there
    }
  }
  if (*shadow != nullptr && (*shadow)->bytes() >= bytes && !(*shadow)->refused(call.session())) return CUDA_SUCCESS;
  shadow->reset();
  return Take(call, bytes, false, shadow);
}

void ShadowPool::LeaveInOrder(BasicCall& call, HandleId stream, const std::shared_ptr<HeldShadow>& shadow) {
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
  if (free != free_.end()) free->second.emplace(shadow.bytes, shadow);
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
