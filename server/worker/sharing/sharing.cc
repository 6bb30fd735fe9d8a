#include "server/worker/sharing/sharing.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/base/log.h"
#include "protocol/base/unique_fd.h"
#include "server/shares/share_broker.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

CUresult ResultOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk: return CUDA_SUCCESS;
    case StatusCode::kResourceExhausted: return CUDA_ERROR_OUT_OF_MEMORY;
    default: return CUDA_ERROR_OPERATING_SYSTEM;
  }
}

}  // namespace

Sharing::Sharing(Worker& worker, DeviceHeap& heap) : worker_(worker), heap_(heap), broker_(worker.shares()) {}

Sharing::~Sharing() {
  MutexLock lock(mutex_);
  for (const auto& [address, opened] : opened_) Unmap(opened);
}

CUresult Sharing::Publish(const Key& key, HandleId context, const ShareFacts& facts, int fd, ShareToken* token) {
  *token = NewShareToken();
  const Status published = broker_->Publish(*token, facts, fd);
  if (!published.ok()) {
    return Refused(published);
  }
  shared_[key] = Shared{*token, context};
  shared_count_.store(shared_.size(), std::memory_order_release);
  return CUDA_SUCCESS;
}

CUresult Sharing::Refused(const Status& published) {
  if (published.ok()) return CUDA_SUCCESS;
  LogWarning("cannot share an object with other processes: {}", published.message());
  if (published.code() == StatusCode::kResourceExhausted) {
    worker_.WarnProgram("cannot share an object with other processes: " + published.message());
  }
  return ResultOf(published);
}

CUresult Sharing::ShareBlock(const Range& range, ShareToken* token) {
  if (broker_ == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  MutexLock lock(mutex_);
  // Whoever frees a block marks it first, and then looks whether anything is shared. From here on it finds something, waits for
  // this lock, and ends the share. Else the server's descriptor would hold memory that is counted no more.
  shared_count_.store(shared_.size() + 1, std::memory_order_seq_cst);
  const CUresult result = ShareBlockLocked(range, token);
  shared_count_.store(shared_.size(), std::memory_order_release);
  return result;
}

CUresult Sharing::ShareBlockLocked(const Range& range, ShareToken* token) {
  const std::optional<DeviceHeap::BlockPlace> place = heap_.PlaceOf(range.base);
  if (!place || place->block.base != range.base || place->block.bytes < range.bytes) return CUDA_ERROR_INVALID_VALUE;
  const Key key{ShareKind::kBlock, place->block.base};
  if (const auto found = shared_.find(key); found != shared_.end()) {
    *token = found->second.token;
    return CUDA_SUCCESS;
  }
  int fd = -1;
  const CUresult result =
      worker_.driver().cuMemExportToShareableHandle(&fd, place->chunk.physical, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) return result;
  const UniqueFd exported(fd);
  ShareFacts facts;
  facts.kind = ShareKind::kBlock;
  facts.allocation_bytes = place->chunk.range.bytes;
  facts.offset = place->block.base - place->chunk.range.base;
  facts.block_bytes = range.bytes;
  return Publish(key, HandleId(place->context), facts, exported.get(), token);
}

CUresult Sharing::ShareEvent(CUevent event, ShareToken* token) {
  if (broker_ == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  MutexLock lock(mutex_);
  const Key key{ShareKind::kEvent, reinterpret_cast<uint64_t>(event)};
  if (const auto found = shared_.find(key); found != shared_.end()) {
    *token = found->second.token;
    return CUDA_SUCCESS;
  }
  CUipcEventHandle handle;
  const CUresult result = worker_.driver().cuIpcGetEventHandle(&handle, event);
  if (result != CUDA_SUCCESS) return result;
  ShareFacts facts;
  facts.kind = ShareKind::kEvent;
  static_assert(sizeof(handle.reserved) == sizeof(facts.event));
  std::memcpy(facts.event.data(), handle.reserved, sizeof(handle.reserved));
  return Publish(key, HandleId(), facts, -1, token);
}

CUresult Sharing::ShareDescriptor(ShareKind kind, int fd, uint64_t bytes, std::shared_ptr<void> memory, ShareToken* token) {
  if (broker_ == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  ShareFacts facts;
  facts.kind = kind;
  facts.allocation_bytes = bytes;
  *token = NewShareToken();
  const Status published = broker_->Publish(*token, facts, fd);
  // Without an answer the server may have the descriptor.
  if (published.ok() || published.code() == StatusCode::kTimedOut || published.code() == StatusCode::kUnavailable) {
    MutexLock lock(mutex_);
    descriptors_[*token] = std::move(memory);
  }
  return Refused(published);
}

void Sharing::Revoke(const ShareToken& token) {
  if (broker_ == nullptr) return;
  broker_->Revoke(token);
  MutexLock lock(mutex_);
  descriptors_.erase(token);
}

std::shared_ptr<void> Sharing::MemoryOf(const ShareToken& token) {
  MutexLock lock(mutex_);
  const auto found = descriptors_.find(token);
  return found == descriptors_.end() ? nullptr : found->second;
}

void Sharing::Forget(const Key& key) {
  MutexLock lock(mutex_);
  const auto found = shared_.find(key);
  if (found == shared_.end()) return;
  broker_->Revoke(found->second.token);
  shared_.erase(found);
  shared_count_.store(shared_.size(), std::memory_order_release);
}

CUresult Sharing::Fetch(const ShareToken& token, ShareKind kind, CUresult none, Share* share) {
  if (broker_ == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  Result<Share> fetched = broker_->Fetch(token);
  if (!fetched.ok()) {
    LogInfo("a handle of another process was not opened: {}", fetched.status().message());
    return fetched.status().code() == StatusCode::kNotFound ? none : ResultOf(fetched.status());
  }
  if (fetched->facts.kind != kind) return CUDA_ERROR_NOT_SUPPORTED;
  *share = std::move(*fetched);
  return CUDA_SUCCESS;
}

bool Sharing::IsOwn(const ShareToken& token) {
  MutexLock lock(mutex_);
  return std::any_of(shared_.begin(), shared_.end(), [&](const auto& entry) { return entry.second.token == token; });
}

CUresult Sharing::OpenEvent(const ShareToken& token, CUevent* event) {
  if (IsOwn(token)) return CUDA_ERROR_INVALID_CONTEXT;
  Share share;
  const CUresult fetched = Fetch(token, ShareKind::kEvent, CUDA_ERROR_MAP_FAILED, &share);
  if (fetched != CUDA_SUCCESS) return fetched;
  CUipcEventHandle handle;
  std::memcpy(handle.reserved, share.facts.event.data(), sizeof(handle.reserved));
  return worker_.driver().cuIpcOpenEventHandle(event, handle);
}

CUresult Sharing::OpenBlock(const ShareToken& token, HandleId context, Block* block) {
  if (IsOwn(token)) return CUDA_ERROR_INVALID_CONTEXT;
  MutexLock lock(mutex_);
  for (auto& [address, opened] : opened_) {
    if (opened.token != token || opened.context != context || opened.openings == 0) continue;
    ++opened.openings;
    *block = opened.block;
    return CUDA_SUCCESS;
  }
  Share share;
  // As driver 580 for memory that was freed.
  const CUresult fetched = Fetch(token, ShareKind::kBlock, CUDA_ERROR_NOT_PERMITTED, &share);
  if (fetched != CUDA_SUCCESS) return fetched;
  Opened opened;
  opened.token = token;
  opened.context = context;
  opened.openings = 1;
  if (const CUresult result = Map(share.fd.get(), share.facts, &opened); result != CUDA_SUCCESS) return result;
  *block = opened.block;
  opened_[opened.block.range.base] = opened;
  return CUDA_SUCCESS;
}

CUresult Sharing::Map(int fd, const ShareFacts& facts, Opened* opened) {
  const DriverTable& driver = worker_.driver();
  const uint64_t bytes = facts.allocation_bytes;
  if (facts.block_bytes > bytes || facts.offset > bytes - facts.block_bytes) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = driver.cuMemImportFromShareableHandle(&opened->physical, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS) return result;
  CUmemAllocationProp properties{};
  result = driver.cuMemGetAllocationPropertiesFromHandle(&properties, opened->physical);
  CUdevice current = 0;
  if (result == CUDA_SUCCESS) result = driver.cuCtxGetDevice(&current);
  // It counts for who has it open as well: the memory stays as long as one of them has it.
  MemoryLedger& ledger = worker_.parts().memory().charges().ledger();
  const CUdevice device = properties.location.id;
  const bool taken = result == CUDA_SUCCESS && ledger.Take(device, MemoryKind::kImports, bytes);
  if (result == CUDA_SUCCESS && !taken) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS) result = heap_.ReserveForeign(bytes, &opened->mapped);
  if (result == CUDA_SUCCESS) {
    const uint64_t base = opened->mapped.base;
    result = driver.cuMemMap(base, bytes, 0, opened->physical, 0);
    if (result == CUDA_SUCCESS) {
      // The block's own device, and the one that opened it when that is another.
      CUmemAccessDesc access[2]{};
      access[0].location = properties.location;
      access[1].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      access[1].location.id = current;
      for (CUmemAccessDesc& one : access) one.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      result = driver.cuMemSetAccess(base, bytes, access, device == current ? 1 : 2);
      if (result == CUDA_SUCCESS) {
        opened->block = Block{Range{base + facts.offset, facts.block_bytes}, device};
        return CUDA_SUCCESS;
      }
      driver.cuMemUnmap(base, bytes);
    }
    heap_.ReleaseForeign(base);
  }
  driver.cuMemRelease(opened->physical);
  if (taken) ledger.Give(device, MemoryKind::kImports, bytes);
  return result;
}

void Sharing::Unmap(const Opened& opened) {
  const CUresult result = worker_.driver().cuMemUnmap(opened.mapped.base, opened.mapped.bytes);
  // An address whose mapping could not be removed must not be handed out again, and what is mapped still holds the memory.
  if (result == CUDA_SUCCESS) heap_.ReleaseForeign(opened.mapped.base);
  const CUresult released = worker_.driver().cuMemRelease(opened.physical);
  if (result != CUDA_SUCCESS || released != CUDA_SUCCESS) return;
  worker_.parts().memory().charges().ledger().Give(opened.block.device, MemoryKind::kImports, opened.mapped.bytes);
}

CUresult Sharing::BeginClose(uint64_t address, bool* last) {
  MutexLock lock(mutex_);
  const auto found = opened_.find(address);
  if (found == opened_.end() || found->second.openings == 0) return CUDA_ERROR_INVALID_VALUE;
  *last = --found->second.openings == 0;
  return CUDA_SUCCESS;
}

void Sharing::EndClose(uint64_t address) {
  MutexLock lock(mutex_);
  const auto found = opened_.find(address);
  if (found == opened_.end() || found->second.openings != 0) return;
  Unmap(found->second);
  opened_.erase(found);
}

void Sharing::EndContext(HandleId context) {
  MutexLock lock(mutex_);
  std::erase_if(shared_, [&](const auto& entry) {
    if (entry.second.context != context) return false;
    broker_->Revoke(entry.second.token);
    return true;
  });
  shared_count_.store(shared_.size(), std::memory_order_release);
  std::erase_if(opened_, [&](const auto& entry) {
    if (entry.second.context != context) return false;
    Unmap(entry.second);
    return true;
  });
}

}  // namespace tessera
