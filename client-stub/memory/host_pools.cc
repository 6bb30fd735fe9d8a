#include "client-stub/memory/host_pools.h"

#include <algorithm>
#include <thread>

#include "client-stub/memory/device_memory.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "generated/messages/context.h"
#include "generated/messages/copy.h"
#include "generated/messages/event.h"
#include "generated/messages/host_memory.h"
#include "generated/messages/service.h"
#include "generated/messages/stream.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

// Between two looks at what is waited for.
constexpr std::chrono::microseconds kLookAgain{50};

constexpr CallInfo kRelease{"tesseraHostRelease",
                            tesseraHostReleaseRequest::kId,
                            CallInfo::Mode::kAsync,
                            CallInfo::Context::kNone,
                            CallInfo::Capture::kLegal,
                            false,
                            nullptr};

// What the pool's file may hold.
uint64_t BoundOf(uint64_t asked) {
  const uint64_t bound = asked == 0 ? HostMemory::kBytesMax : std::min(asked, HostMemory::kBytesMax);
  const uint64_t file = HostFile::FileBytesMax() / HostFile::kPieceBytes * HostFile::kPieceBytes;
  return file <= HostFile::kDataOffset
             ? 0
             : std::min(bound, (file - HostFile::kDataOffset) / 2 / HostFile::kPieceBytes * HostFile::kPieceBytes);
}

}  // namespace

bool HostPools::Synchronizes(const CallInfo& info) {
  return info.id == cuStreamSynchronizeRequest::kId || info.id == cuEventSynchronizeRequest::kId ||
         info.id == cuCtxSynchronizeRequest::kId;
}

HostPool* HostPools::FindLocked(HandleId id) const {
  const auto found = pools_.find(id.value());
  return found == pools_.end() || found->second.destroyed ? nullptr : found->second.pool.get();
}

bool HostPools::Has(HandleId pool) const {
  if (!any_.load(std::memory_order_acquire)) return false;
  MutexLock lock(mutex_);
  return FindLocked(pool) != nullptr;
}

bool HostPools::Contains(uint64_t address) const {
  if (!any_.load(std::memory_order_acquire)) return false;
  const auto block = memory_.Find(address);
  return block && !block->pool.is_null();
}

CUresult HostPools::Enter(BasicCall& call, HandleId id, std::shared_ptr<HostPool> pool) {
  MutexLock lock(mutex_);
  if (pools_.size() == kPoolsMax) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  pools_.insert_or_assign(id.value(), Entry{std::move(pool)});
  any_.store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

CUresult HostPools::Create(BasicCall& call, HandleId id, const CUmemLocation& location, uint64_t bytes_max, bool shareable) {
  const uint64_t bound = BoundOf(bytes_max);
  if (bound == 0) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  const int node = location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ? location.id : -1;
  Result<HostFile> file = HostFile::Create(HostFile::Kind::kPool, 2 * bound, node);
  if (!file.ok()) {
    LogWarning("no memory pool on the host: {}", file.status().message());
    return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  return Enter(call, id, std::make_shared<HostPool>(marks_, std::move(*file), location, bound, shareable, false));
}

CUresult HostPools::Import(BasicCall& call, HandleId id, HostFile file) {
  CUmemLocation location{};
  location.type = file.node() < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_HOST_NUMA;
  location.id = std::max(file.node(), 0);
  return Enter(call, id, std::make_shared<HostPool>(marks_, std::move(file), location, HostMemory::kBytesMax, false, true));
}

CUresult HostPools::Destroy(BasicCall& call, HandleId id) {
  {
    MutexLock lock(mutex_);
    for (auto& [key, pools] : locations_) {
      if (pools.own == id) return call.Fail(CUDA_ERROR_INVALID_VALUE);
      if (pools.current == id) pools.current = HandleId();
    }
    const auto found = pools_.find(id.value());
    if (found == pools_.end() || found->second.destroyed) return call.Fail(CUDA_ERROR_INVALID_VALUE);
    found->second.destroyed = true;
  }
  call.Release(id);
  ShrinkAll(call, true);
  return CUDA_SUCCESS;
}

HostPools::LocationKey HostPools::KeyOf(const CUmemLocation& location) {
  return {location.type, location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ? location.id : 0};
}

CUresult HostPools::OfLocation(BasicCall& call, const CUmemLocation& location, bool current, HandleId* id) {
  {
    MutexLock lock(mutex_);
    const auto found = locations_.find(KeyOf(location));
    if (found != locations_.end()) {
      *id = current && !found->second.current.is_null() ? found->second.current : found->second.own;
      if (!id->is_null()) return CUDA_SUCCESS;
    }
  }
  const HandleId made = call.Mint(HandleKind::kMemoryPool);
  if (!call.ok()) return call.result();
  if (const CUresult result = Create(call, made, location, 0, false); result != CUDA_SUCCESS) return result;
  MutexLock lock(mutex_);
  HandleId& own = locations_[KeyOf(location)].own;
  if (own.is_null()) {
    own = made;
  } else {  // another thread was faster
    pools_.erase(made.value());
    call.Release(made);
  }
  *id = own;
  return CUDA_SUCCESS;
}

void HostPools::SetCurrent(const CUmemLocation& location, HandleId id) {
  MutexLock lock(mutex_);
  locations_[KeyOf(location)].current = id;
}

CUresult HostPools::Attach(BasicCall& call, HostPool& pool, const Range& in_file, HostPool::Piece* piece) {
  piece->context = call.owner_context();
  piece->in_file = in_file;
  HostMemory::Placed& placed = piece->placed;
  if (memory_.PlaceFile(piece->context, pool.file().fd(), in_file.base, in_file.bytes, &placed) != CUDA_SUCCESS) {
    return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  BindToNode(placed.block, pool.file().node());
  cuMemHostAllocRequest request;
  request.segment = placed.segment;
  request.address = placed.segment_range.base;
  request.segment_bytes = placed.segment_range.bytes;
  if (const CUresult result = call.SyncAs(request); result != CUDA_SUCCESS) {
    memory_.Abandon(placed);
    return result;
  }
  memory_.CommitUnseen(placed);
  return CUDA_SUCCESS;
}

CUresult HostPools::Allocate(BasicCall& call, HandleId id, uint64_t bytes, const UsedStream& stream, CUdeviceptr* address) {
  const auto until = std::chrono::steady_clock::now() + kAtBoundWait;
  for (bool waited = false;; waited = true) {
    if (waited) std::this_thread::sleep_for(kLookAgain);
    call.session().Poll();
    std::shared_ptr<HostPool> pool;
    std::optional<Range> in_file;
    {
      MutexLock lock(mutex_);
      CollectLocked();
      const auto found = pools_.find(id.value());
      if (found == pools_.end() || found->second.destroyed || found->second.pool->imported()) {
        return call.Fail(CUDA_ERROR_INVALID_VALUE);
      }
      pool = found->second.pool;
      auto block = pool->Take(bytes, stream.ref.key);
      if (!block && ReadmitLocked(*pool, bytes)) block = pool->Take(bytes, stream.ref.key);
      if (block) {
        HostBlock shown;
        shown.range = *block;
        shown.mapping = pool->MappingOf(block->base);
        if (const Context* context = call.current_context()) shown.device = context->device;
        shown.pool = id;
        shown.shared = true;
        shown.handle_types = pool->shareable() ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
        memory_.Show(shown);
        *address = block->base;
        return CUDA_SUCCESS;
      }
      in_file = pool->BeginGrowth(bytes);
      if (!in_file && (!pool->waits() || std::chrono::steady_clock::now() > until)) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
    }
    if (!in_file) continue;
    HostPool::Piece piece;
    const CUresult result = Attach(call, *pool, *in_file, &piece);
    MutexLock lock(mutex_);
    if (result != CUDA_SUCCESS) {
      pool->GiveUp(*in_file);
      return result;
    }
    pool->Grow(std::move(piece));
  }
}

std::shared_ptr<HostPool> HostPools::PoolAt(uint64_t address) const {
  const auto block = memory_.Find(address);
  if (!block || block->pool.is_null() || block->range.base != address) return nullptr;
  const auto found = pools_.find(block->pool.value());
  return found == pools_.end() ? nullptr : found->second.pool;
}

CUresult HostPools::Free(BasicCall& call, uint64_t address, const UsedStream& stream) {
  std::shared_ptr<HostPool> pool;
  {
    MutexLock lock(mutex_);
    pool = PoolAt(address);
    if (pool == nullptr || !memory_.Hide(address)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  // A copy of nothing: the mark is passed when the stream is here.
  cuMemcpyAsyncRequest request;
  request.stream = stream.id;
  request.mark = marks_.Open();
  const CUresult result = call.AsyncOwn(request);
  MutexLock lock(mutex_);
  if (!pool->Free(address, stream.ref.key, request.mark)) marks_.Close(request.mark);  // its context has ended meanwhile
  return result;
}

CUresult HostPools::FreeNow(BasicCall& call, uint64_t address) {
  {
    MutexLock lock(mutex_);
    const auto pool = PoolAt(address);
    if (pool == nullptr || !memory_.Hide(address)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
    pool->FreeNow(address);
  }
  return CUDA_SUCCESS;
}

void HostPools::Trim(BasicCall& call, HandleId id, uint64_t keep) {
  {
    MutexLock lock(mutex_);
    const auto found = pools_.find(id.value());
    if (found == pools_.end()) return;
    LeaveLocked(found->second.pool, found->second.pool->Shrink(keep));
  }
  Sweep(call);
}

CUresult HostPools::OpenPointer(BasicCall& call, HandleId id, const PoolPointer& pointer, CUdeviceptr* address) {
  std::shared_ptr<HostPool> pool;
  std::optional<Range> range;
  bool opened = false;
  {
    MutexLock lock(mutex_);
    const auto found = pools_.find(id.value());
    if (found == pools_.end()) return call.Fail(CUDA_ERROR_INVALID_VALUE);
    pool = found->second.pool;
    range = pool->file().RangeOf(pointer);
    opened = range && pool->IsOpen(range->base);
  }
  if (!range || !pool->imported()) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (opened) return call.Fail(CUDA_ERROR_ALREADY_MAPPED);
  const uint64_t first = range->base & ~(kPageBytes - 1);
  const uint64_t end = (range->end() + kPageBytes - 1) & ~(kPageBytes - 1);
  HostPool::Piece piece;
  if (const CUresult result = Attach(call, *pool, Range{first, end - first}, &piece); result != CUDA_SUCCESS) return result;
  HostBlock shown;
  shown.range = Range{piece.placed.block.base + (range->base - first), range->bytes};
  if (const Context* context = call.current_context()) shown.device = context->device;
  shown.mapping = piece.placed.block;
  shown.pool = id;
  shown.shared = true;
  MutexLock lock(mutex_);
  pool->Open(std::move(piece), shown.range.base, range->bytes);
  memory_.Show(shown);
  *address = shown.range.base;
  return CUDA_SUCCESS;
}

bool HostPools::Locate(uint64_t address, PoolPointer* pointer) {
  MutexLock lock(mutex_);
  const auto pool = PoolAt(address);
  if (pool == nullptr || !pool->shareable()) return false;
  const auto range = pool->Locate(address);
  if (!range) return false;
  *pointer = PoolPointer{};
  pointer->id = pool->file().id();
  pointer->offset = range->base;
  pointer->bytes = range->bytes;
  return true;
}

void HostPools::AwaitFrees(BasicCall& call, uint64_t stream) {
  const auto until = std::chrono::steady_clock::now() + kNewsWait;
  for (bool waits = true; waits && std::chrono::steady_clock::now() < until;) {
    waits = false;
    call.session().Poll();
    {
      MutexLock lock(mutex_);
      for (const auto& [id, entry] : pools_) {
        entry.pool->Settle();
        waits |= stream == 0 ? entry.pool->waits() : entry.pool->waits_for(stream);
      }
    }
    if (waits) std::this_thread::sleep_for(kLookAgain);
  }
  ShrinkAll(call, false);
}

void HostPools::ShrinkAll(BasicCall& call, bool always) {
  Sweep(call);
  {
    MutexLock lock(mutex_);
    // Else what a program allocates and frees beside work that never ends would all be on its way back.
    if (!always && asked_mark_ != 0) return;
    for (auto& [id, entry] : pools_) {
      const uint64_t keep = entry.destroyed || entry.pool->imported() ? 0 : entry.pool->threshold;
      LeaveLocked(entry.pool, entry.pool->Shrink(keep));
    }
  }
  Sweep(call);
}

void HostPools::LeaveLocked(const std::shared_ptr<HostPool>& pool, std::vector<HostPool::Piece> pieces) {
  for (HostPool::Piece& piece : pieces) leaving_.push_back(Leaving{pool, std::move(piece)});
}

void HostPools::CollectLocked() {
  CUresult released = CUDA_SUCCESS;
  if (asked_mark_ != 0 && marks_.Passed(asked_mark_, &released)) {
    marks_.Close(std::exchange(asked_mark_, 0));
    if (released == CUDA_ERROR_NOT_READY) {
      for (Leaving& leaving : leaving_) leaving.asked = false;
    }
    std::erase_if(leaving_, [this](const Leaving& leaving) {
      if (!leaving.asked) return false;
      memory_.Abandon(leaving.piece.placed);
      leaving.pool->Forget(leaving.piece);
      return true;
    });
  }
  std::erase_if(pools_, [](const auto& entry) { return entry.second.destroyed && entry.second.pool->empty(); });
  any_.store(!pools_.empty() || !leaving_.empty(), std::memory_order_release);
}

bool HostPools::ReadmitLocked(HostPool& pool, uint64_t bytes) {
  const auto fits = std::find_if(leaving_.begin(), leaving_.end(), [&](const Leaving& leaving) {
    return leaving.pool.get() == &pool && !leaving.asked && leaving.piece.in_file.bytes >= bytes && pool.Readmit(leaving.piece);
  });
  if (fits == leaving_.end()) return false;
  leaving_.erase(fits);
  return true;
}

void HostPools::Sweep(BasicCall& call) {
  std::vector<uint32_t> segments;
  tesseraHostReleaseRequest request;
  {
    MutexLock lock(mutex_);
    CollectLocked();
    if (asked_mark_ != 0 || leaving_.empty()) return;
    for (Leaving& leaving : leaving_) {
      segments.push_back(leaving.piece.placed.segment);
      leaving.asked = true;
    }
    request.mark = asked_mark_ = marks_.Open();
  }
  request.segments.Borrow(segments);
  BasicCall release(kRelease, call);
  if (release.Async(request) == CUDA_SUCCESS) return;
  marks_.Pass(request.mark, CUDA_ERROR_NOT_READY);
}

void HostPools::EndContext(HandleId context) {
  MutexLock lock(mutex_);
  for (auto& [id, entry] : pools_) {
    for (const uint64_t block : entry.pool->EndContext(context)) memory_.Hide(block);
  }
  std::erase_if(leaving_, [&](const Leaving& leaving) {
    if (leaving.piece.context != context) return false;
    leaving.pool->Forget(leaving.piece);
    return true;
  });
}

}  // namespace tessera
