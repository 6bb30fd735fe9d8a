#include "client-stub/memory/host_allocations.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "client-stub/memory/host_location.h"
#include "client-stub/session/session.h"
#include "generated/messages/service.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"

namespace tessera {
namespace {

// Maps the pages of the file for the program, in place of what is there. False with errno.
bool MapForProgram(const Range& range, const HostFile& file, CUmemAccess_flags access) {
  int protection = PROT_NONE;
  if (access != CU_MEM_ACCESS_FLAGS_PROT_NONE) protection = PROT_READ;
  if (access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) protection |= PROT_WRITE;
  void* const mapped = mmap(reinterpret_cast<void*>(range.base), range.bytes, protection, MAP_SHARED | MAP_FIXED, file.fd(),
                            static_cast<off_t>(HostFile::kDataOffset));
  return mapped != MAP_FAILED;
}

// What the addresses are between reservation and mapping (held_addresses.h).
void HoldAgain(const Range& range) {
  void* const held = mmap(reinterpret_cast<void*>(range.base), range.bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (held == MAP_FAILED) LogError("{} bytes at {:#x} could not be unmapped: errno {}", range.bytes, range.base, errno);
}

uint64_t MemoryOfThisHost() {
  struct sysinfo info {};
  return sysinfo(&info) == 0 ? uint64_t{info.totalram} * info.mem_unit : UINT64_MAX;
}

}  // namespace

bool HostAllocations::Has(HandleId id) const {
  if (!any_.load(std::memory_order_acquire)) return false;
  MutexLock lock(mutex_);
  return handles_.contains(id.value());
}

bool HostAllocations::AnyIn(const Range& range) const {
  if (!any_.load(std::memory_order_acquire)) return false;
  MutexLock lock(mutex_);
  const auto next = mappings_.lower_bound(range.base);
  return (next != mappings_.end() && next->first < range.end()) ||
         (next != mappings_.begin() && std::prev(next)->second.range.end() > range.base);
}

const HostAllocations::Mapping* HostAllocations::FindLocked(uint64_t address) const {
  const auto after = mappings_.upper_bound(address);
  const bool found = after != mappings_.begin() && std::prev(after)->second.range.contains(address);
  return found ? &std::prev(after)->second : nullptr;
}

Range HostAllocations::MappingAt(uint64_t address) const {
  if (!any_.load(std::memory_order_acquire)) return {};
  MutexLock lock(mutex_);
  const Mapping* const mapping = FindLocked(address);
  return mapping == nullptr ? Range{} : mapping->range;
}

std::optional<CUmemAccess_flags> HostAllocations::ProgramAccess(uint64_t address) const {
  if (!any_.load(std::memory_order_acquire)) return std::nullopt;
  MutexLock lock(mutex_);
  const Mapping* const mapping = FindLocked(address);
  return mapping == nullptr ? std::nullopt : std::optional(mapping->host);
}

CUresult HostAllocations::Create(BasicCall& call, HandleId id, uint64_t bytes, int node, bool shareable) {
  static const uint64_t all = MemoryOfThisHost();
  if (bytes > all) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  Result<HostFile> file = HostFile::Create(HostFile::Kind::kAllocation, bytes, node);
  if (!file.ok()) {
    LogWarning("no physical memory on the host: {}", file.status().message());
    return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  MutexLock lock(mutex_);
  handles_[id.value()].allocation = std::make_shared<Allocation>(Allocation{std::move(*file), shareable});
  any_.store(true, std::memory_order_release);
  return CUDA_SUCCESS;
}

void HostAllocations::Import(HandleId id, HostFile file) {
  MutexLock lock(mutex_);
  handles_[id.value()].allocation = std::make_shared<Allocation>(Allocation{std::move(file), false, true});
  any_.store(true, std::memory_order_release);
}

CUresult HostAllocations::Release(BasicCall& call, HandleId id) {
  {
    MutexLock lock(mutex_);
    const auto found = handles_.find(id.value());
    if (found == handles_.end()) return call.Fail(CUDA_ERROR_INVALID_VALUE);
    if (--found->second.references != 0) return CUDA_SUCCESS;
    handles_.erase(found);
  }
  call.Release(id);
  return CUDA_SUCCESS;
}

CUresult HostAllocations::Retain(BasicCall& call, uint64_t address, HandleId* id) {
  const HandleId made = call.Mint(HandleKind::kMemoryAllocation);
  if (!call.ok()) return call.result();
  {
    MutexLock lock(mutex_);
    if (const Mapping* const mapping = FindLocked(address); mapping != nullptr) {
      const std::shared_ptr<Allocation> allocation = mapping->allocation;
      const auto live = handles_.find(mapping->handle.value());
      if (live == handles_.end()) {
        handles_[made.value()].allocation = allocation;
        for (auto& [base, other] : mappings_) {
          if (other.allocation == allocation) other.handle = made;
        }
        *id = made;
        return CUDA_SUCCESS;
      }
      ++live->second.references;
      *id = mapping->handle;
    }
  }
  call.Release(made);
  return id->is_null() ? call.Fail(CUDA_ERROR_INVALID_VALUE) : CUDA_SUCCESS;
}

CUresult HostAllocations::Properties(BasicCall& call, HandleId id, CUmemAllocationProp* properties) {
  MutexLock lock(mutex_);
  const auto found = handles_.find(id.value());
  if (found == handles_.end()) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Allocation& allocation = *found->second.allocation;
  *properties = CUmemAllocationProp{};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;  // whatever it was made with (measured)
  properties->location.id = std::max(allocation.file.node(), 0);
  properties->requestedHandleTypes =
      allocation.shareable || allocation.imported ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  return CUDA_SUCCESS;
}

CUresult HostAllocations::Export(BasicCall& call, HandleId id, int* fd) {
  MutexLock lock(mutex_);
  const auto found = handles_.find(id.value());
  if (found == handles_.end() || !found->second.allocation->shareable) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  *fd = found->second.allocation->file.Duplicate();
  return *fd < 0 ? call.Fail(CUDA_ERROR_OPERATING_SYSTEM) : CUDA_SUCCESS;
}

void HostAllocations::Show(const Mapping& mapping) {
  HostBlock block;
  block.range = mapping.range;
  block.flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
  block.mapped = true;
  block.host_access = mapping.host;
  for (const auto& [device, access] : mapping.devices) block.device_access = std::max(block.device_access, access);
  block.shared = mapping.attached;
  block.handle_types = mapping.allocation->shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  memory_.ShowMapping(block);
  MutexLock lock(mutex_);
  mappings_.insert_or_assign(mapping.range.base, mapping);
}

CUresult HostAllocations::Map(BasicCall& call, const Range& range, HandleId id) {
  MutexLock changes(changes_);
  Mapping mapping;
  mapping.range = range;
  mapping.handle = id;
  {
    MutexLock lock(mutex_);
    const auto found = handles_.find(id.value());
    if (found == handles_.end()) return call.Fail(CUDA_ERROR_INVALID_VALUE);
    mapping.allocation = found->second.allocation;
  }
  // As driver 580: all of it, or nothing.
  if (range.bytes != mapping.allocation->file.bytes()) return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
  if (AnyIn(range)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (!MapForProgram(range, mapping.allocation->file, mapping.host)) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  BindToNode(range, mapping.allocation->file.node());
  Show(mapping);
  return CUDA_SUCCESS;
}

CUresult HostAllocations::Unmap(BasicCall& call, const Range& range) {
  MutexLock changes(changes_);
  std::vector<Mapping> gone;
  {
    MutexLock lock(mutex_);
    for (const auto& [base, mapping] : mappings_) {
      if (base >= range.end() || mapping.range.end() <= range.base) continue;
      if (base < range.base || mapping.range.end() > range.end()) return call.Fail(CUDA_ERROR_INVALID_VALUE);
      gone.push_back(mapping);
    }
  }
  for (const Mapping& mapping : gone) {
    const uint64_t base = mapping.range.base;
    if (mapping.attached) {
      tesseraHostUnmapRequest request;
      request.address = base;
      if (const CUresult result = call.SyncAs(request); result != CUDA_SUCCESS) return result;
    }
    memory_.HideMapping(base);
    HoldAgain(mapping.range);
    MutexLock lock(mutex_);
    mappings_.erase(base);
  }
  return CUDA_SUCCESS;
}

std::vector<HostAllocations::Mapping> HostAllocations::MappingsOf(const Range& range) const {
  MutexLock lock(mutex_);
  std::vector<Mapping> mappings;
  for (uint64_t at = range.base; at < range.end(); at = mappings.back().range.end()) {
    const auto found = mappings_.find(at);
    if (found == mappings_.end() || found->second.range.end() > range.end()) return {};
    mappings.push_back(found->second);
  }
  return mappings;
}

CUresult HostAllocations::Attach(BasicCall& call, const Mapping& mapping) {
  Channel& channel = call.session().channel();
  Result<uint32_t> segment =
      channel.OfferFile(mapping.allocation->file.fd(), HostFile::kDataOffset, mapping.range.bytes, MapPlacement::Anywhere());
  if (!segment.ok()) {
    LogWarning("no shared memory of {} bytes for the server: {}", mapping.range.bytes, segment.status().message());
    return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  tesseraHostMapRequest request;
  request.segment = *segment;
  request.address = mapping.range.base;
  request.bytes = mapping.range.bytes;
  const CUresult result = call.SyncAs(request);
  if (const Status closed = channel.CloseSegment(*segment); !closed.ok()) {
    LogDebug("segment {} could not be closed: {}", *segment, closed.message());
  }
  return result;
}

CUresult HostAllocations::SetAccess(BasicCall& call, const Range& range, std::span<const CUmemAccessDesc> accesses) {
  MutexLock changes(changes_);
  std::vector<Mapping> mappings = MappingsOf(range);
  if (mappings.empty() || accesses.empty()) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  for (const CUmemAccessDesc& access : accesses) {
    const bool device =
        access.location.type == CU_MEM_LOCATION_TYPE_DEVICE && call.session().devices().NumberOf(access.location.id) >= 0;
    if (!IsAccess(access.flags) || (!device && !IsNodeOrHost(access.location))) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  for (Mapping& mapping : mappings) {
    const CUmemAccess_flags before = mapping.host;
    bool for_devices = false;
    for (const CUmemAccessDesc& access : accesses) {
      if (IsNodeOrHost(access.location)) {
        mapping.host = access.flags;
      } else {
        mapping.devices[access.location.id] = access.flags;
        for_devices |= access.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
      }
    }
    if (for_devices && !mapping.attached) {
      if (const CUresult result = Attach(call, mapping); result != CUDA_SUCCESS) return result;
      mapping.attached = true;
    }
    const bool mapped = MapForProgram(mapping.range, mapping.allocation->file, mapping.host);
    if (!mapped) mapping.host = before;
    Show(mapping);  // the server has it by now
    if (!mapped) return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  return CUDA_SUCCESS;
}

CUresult HostAllocations::Access(BasicCall& call, uint64_t address, const CUmemLocation& location, unsigned long long* flags) {
  const bool host = IsNodeOrHost(location);
  if (!host && (location.type != CU_MEM_LOCATION_TYPE_DEVICE || call.session().devices().NumberOf(location.id) < 0)) {
    return call.Fail(CUDA_ERROR_INVALID_DEVICE);
  }
  MutexLock lock(mutex_);
  const Mapping* const mapping = FindLocked(address);
  if (mapping == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const auto device = mapping->devices.find(location.id);
  *flags = host ? mapping->host : device == mapping->devices.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : device->second;
  return CUDA_SUCCESS;
}

}  // namespace tessera
