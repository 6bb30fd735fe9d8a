#include "client-stub/shadow_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "client-stub/host_memory.h"
#include "client-stub/session.h"
#include "generated/messages/host_memory.h"

namespace tessera {

CUresult ShadowPool::Take(Call& call, uint64_t bytes, Shadow* shadow) {
  if (bytes > HostMemory::kBytesMax) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  *shadow = Shadow{0, std::bit_ceil(std::max(bytes, HostMemory::kAlignmentBytes)), call.owner_context()};
  {
    MutexLock lock(mutex_);
    Sweep(call.session());
    auto& free = free_[shadow->context.value()];
    if (const auto found = free.find(shadow->bytes); found != free.end()) {
      shadow->address = found->second;
      free.erase(found);
      return CUDA_SUCCESS;
    }
  }
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

void ShadowPool::Keep(const Shadow& shadow) {
  const auto free = free_.find(shadow.context.value());
  if (free != free_.end()) free->second.emplace(shadow.bytes, shadow.address);
}

void ShadowPool::Return(const Shadow& shadow) {
  MutexLock lock(mutex_);
  Keep(shadow);
}

void ShadowPool::ReturnAfter(std::vector<Shadow> shadows, uint64_t mark) {
  MutexLock lock(mutex_);
  pending_.push_back(Pending{std::move(shadows), mark});
}

void ShadowPool::Sweep(Session& session) {
  std::erase_if(pending_, [&](const Pending& one) {
    if (!session.marks().Passed(one.mark)) return false;
    session.marks().Close(one.mark);
    for (const Shadow& shadow : one.shadows) Keep(shadow);
    return true;
  });
}

void ShadowPool::EndContext(HandleId context) {
  MutexLock lock(mutex_);
  free_.erase(context.value());
}

}  // namespace tessera
