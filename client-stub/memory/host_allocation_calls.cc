#include "client-stub/memory/host_allocation_calls.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/host_location.h"
#include "client-stub/memory/host_pool_calls.h"
#include "client-stub/session/session.h"
#include "generated/messages/virtual_memory.h"

namespace tessera {
namespace {

constexpr uint64_t kUnitBytes = AddressReservations::kGranuleBytes;

// Of what a mixed range is made of: all of one mapping.
struct Piece {
  Range range;
  bool on_host = false;
};

// The mappings that make up exactly the range; empty when they do not.
std::vector<Piece> PiecesOf(ClientMemory& memory, const Range& range) {
  std::vector<Piece> pieces;
  for (uint64_t at = range.base; at < range.end(); at = pieces.back().range.end()) {
    Piece piece;
    piece.range = memory.allocations().MappingAt(at);
    piece.on_host = piece.range.bytes != 0;
    const auto device = memory.device().Find(at);
    if (!piece.on_host && device && device->kind == DeviceAllocation::Kind::kMapped) piece.range = device->range;
    if (piece.range.base != at || piece.range.bytes == 0 || piece.range.end() > range.end()) return {};
    pieces.push_back(piece);
  }
  return pieces;
}

}  // namespace

HostAllocations& Allocations(BasicCall& call) { return call.session().memory().allocations(); }

CUresult CreateHostAllocation(BasicCall& call, CUmemGenericAllocationHandle* handle, size_t bytes,
                              const CUmemAllocationProp& properties, unsigned long long flags) {
  if (call.session().mirrored()) return RefuseWithoutPages(call);
  const CUmemLocation& location = properties.location;
  const bool on_node = location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  const CUmemAllocationHandleType types = properties.requestedHandleTypes;
  if (on_node && types == CU_MEM_HANDLE_TYPE_FABRIC) return call.Fail(CUDA_ERROR_NOT_PERMITTED);
  const bool shareable = on_node && types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const auto& features = properties.allocFlags;
  if (properties.type != CU_MEM_ALLOCATION_TYPE_PINNED || !IsNodeOrHost(location) || (on_node && !IsNode(location.id)) ||
      (types != CU_MEM_HANDLE_TYPE_NONE && !shareable) || features.compressionType != 0 || features.gpuDirectRDMACapable != 0 ||
      features.usage != 0 || flags != 0 || bytes == 0 || bytes % kUnitBytes != 0) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  const HandleId id = call.Mint(HandleKind::kMemoryAllocation);
  if (!call.ok()) return call.result();
  const CUresult result = Allocations(call).Create(call, id, bytes, on_node ? location.id : -1, shareable);
  if (result == CUDA_SUCCESS) {
    *handle = id.value();
  } else {
    call.Release(id);
  }
  return result;
}

CUresult HostGranularity(BasicCall& call, size_t* granularity, CUmemAllocationGranularity_flags option) {
  if (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  *granularity = kUnitBytes;
  return CUDA_SUCCESS;
}

CUresult MapHostAllocation(BasicCall& call, const Range& range, size_t offset, HandleId handle, unsigned long long flags) {
  if (range.bytes == 0 || range.bytes % kUnitBytes != 0 || range.base % kUnitBytes != 0 || flags != 0) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  if (offset != 0) return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
  if (call.session().memory().device().AnyIn(range)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  return Allocations(call).Map(call, range, handle);
}

CUresult SetMixedAccess(BasicCall& call, const Range& range, const CUmemAccessDesc* accesses, size_t count) {
  const std::vector<Piece> pieces = PiecesOf(call.session().memory(), range);
  if (pieces.empty()) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const std::span<const CUmemAccessDesc> all(accesses, count);
  const bool on_devices = std::any_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return !piece.on_host; });
  const bool for_program = std::any_of(all.begin(), all.end(), [](const CUmemAccessDesc& access) {
    return IsNodeOrHost(access.location) && access.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  });
  if (on_devices && for_program) return call.Fail(CUDA_ERROR_NOT_SUPPORTED);  // the program reaches no memory of a device
  for (const Piece& piece : pieces) {
    CUresult result = CUDA_SUCCESS;
    if (piece.on_host) {
      result = Allocations(call).SetAccess(call, piece.range, all);
    } else {
      cuMemSetAccessRequest request;
      request.ptr = piece.range.base;
      request.size = piece.range.bytes;
      CUmemAccessDesc* const numbered = request.desc.Allocate(count);
      for (size_t i = 0; i < count; ++i) numbered[i] = call.DeviceNumbers(accesses[i]);
      request.count = count;
      result = call.ok() ? call.Sync(request) : call.result();
    }
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult ExportHostAllocation(BasicCall& call, void* handle, HandleId allocation) {
  int fd = -1;
  const CUresult result = Allocations(call).Export(call, allocation, &fd);
  if (result == CUDA_SUCCESS) std::memcpy(handle, &fd, sizeof(fd));
  return result;
}

CUresult ImportHostAllocation(BasicCall& call, CUmemGenericAllocationHandle* handle, HostFile file) {
  if (call.session().mirrored()) return RefuseWithoutPages(call);
  if (file.bytes() == 0 || file.bytes() % kUnitBytes != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const HandleId id = call.Mint(HandleKind::kMemoryAllocation);
  if (!call.ok()) return call.result();
  Allocations(call).Import(id, std::move(file));
  *handle = id.value();
  return CUDA_SUCCESS;
}

}  // namespace tessera
