// Managed memory: allocation, attachment, and hints about where its pages should be. What the driver moves there moves here
// by itself when it is needed (managed/managed_memory.h), so hints are checked, kept, and cost little.

#include <cuda.h>

#include <cstring>
#include <optional>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/managed/managed_memory.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/stream_state.h"
#include "generated/client/managed.h"
#include "generated/messages/memory.h"
#include "protocol/base/first_time.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

// Largest block of which the server's heap may put several into one page; asked for with room to begin at a page.
constexpr uint64_t kSharedPagesBelowBytes = uint64_t{2} << 20;

uint64_t WholePages(uint64_t bytes) { return (bytes + kManagedPageBytes - 1) & ~(kManagedPageBytes - 1); }

bool IsDevice(Call& call, int device) { return call.session().devices().Valid(device); }

// The place that `location` names. Nothing when there is none such.
std::optional<AdvisedPlace> PlaceOf(Call& call, const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      if (!IsDevice(call, location.id)) return std::nullopt;
      return AdvisedPlace{location.type, location.id};
    case CU_MEM_LOCATION_TYPE_HOST: return AdvisedPlace{location.type, 0};
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return AdvisedPlace{location.type, location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ? location.id : 0};
    default: return std::nullopt;
  }
}

// As a device number: of places that the older functions can name.
int DeviceOf(const AdvisedPlace& place) {
  if (place.type == CU_MEM_LOCATION_TYPE_DEVICE) return place.id;
  return place.type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

CUmemLocation LocationOf(CUdevice device) {
  CUmemLocation location{};
  location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device == CU_DEVICE_CPU ? 0 : device;
  return location;
}

ManagedMemory& Managed(Call& call) { return ManagedMemory::Of(call.session()); }

bool IsManaged(Call& call, CUdeviceptr address, size_t bytes) {
  return address != 0 && bytes != 0 && address <= UINT64_MAX - bytes && Managed(call).Covers(Range{address, bytes});
}

// `unknown`: the code for a place that there is not, in which the forms differ (driver 580).
CUresult Advise(Call& call, CUdeviceptr address, size_t bytes, CUmem_advise advice, const CUmemLocation& location,
                CUresult unknown) {
  if (!IsManaged(call, address, bytes)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  AdvisedPlace place;
  switch (advice) {
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY: {
      const auto named = PlaceOf(call, location);
      if (!named) return call.Fail(unknown);
      const bool node = named->type != CU_MEM_LOCATION_TYPE_DEVICE && named->type != CU_MEM_LOCATION_TYPE_HOST;
      if (node && advice != CU_MEM_ADVISE_SET_PREFERRED_LOCATION) return call.Fail(CUDA_ERROR_INVALID_VALUE);
      place = *named;
      break;
    }
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: break;
    default: return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  Managed(call).UpdateAdvice(Range{address, bytes}, [&](Advice& kept) {
    switch (advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY: kept.read_mostly = true; break;
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY: kept.read_mostly = false; break;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: kept.preferred = place; break;
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: kept.preferred = AdvisedPlace{}; break;
      case CU_MEM_ADVISE_SET_ACCESSED_BY: kept.accessed_by.insert(DeviceOf(place)); break;
      default: kept.accessed_by.erase(DeviceOf(place)); break;
    }
  });
  return CUDA_SUCCESS;
}

// Towards a device: what the program wrote is there when the call returns. Towards the host: pages come when they are
// touched, many at a time.
CUresult Prefetch(Call& call, CUdeviceptr address, size_t bytes, const CUmemLocation& location, CUstream stream) {
  const HandleId id = call.UseStream(stream);
  if (!call.ok()) return call.result();
  if (!IsManaged(call, address, bytes)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const auto place = PlaceOf(call, location);
  if (!place) {
    const bool device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    return call.Fail(device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE);
  }
  if (call.capturing()) return call.Fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  const Range range{address, bytes};
  if (place->type == CU_MEM_LOCATION_TYPE_DEVICE) {
    const CUresult result = Managed(call).Prepare(ManagedUse{NameOf(call.context(), id), range, true});
    if (result != CUDA_SUCCESS) return call.Fail(result);
  } else {
    Managed(call).ExpectPass(range);
  }
  Managed(call).UpdateAdvice(range, [&](Advice& kept) { kept.last_prefetch = *place; });
  return CUDA_SUCCESS;
}

// The value that all advice in the range has, or `otherwise`.
template <typename Value, typename Of>
Value CommonValue(Call& call, const Range& range, Value otherwise, Of of) {
  std::optional<Value> common;
  bool differs = false;
  Managed(call).ForEachAdvice(range, [&](const Advice& advice) {
    const Value value = of(advice);
    differs = differs || (common && *common != value);
    common = value;
  });
  return differs || !common ? otherwise : *common;
}

// `bytes` of `data` for one attribute of the range, which is managed memory.
CUresult RangeAttribute(Call& call, void* data, size_t bytes, CUmem_range_attribute attribute, const Range& range) {
  const auto store = [&](auto value) {
    if (bytes != sizeof(value)) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(data, &value, sizeof(value));
    return CUDA_SUCCESS;
  };
  const auto preferred = [](const Advice& advice) { return advice.preferred; };
  const auto prefetched = [](const Advice& advice) { return advice.last_prefetch; };
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return store(CommonValue<int>(call, range, 0, [](const Advice& advice) { return int{advice.read_mostly}; }));
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: return store(DeviceOf(CommonValue<AdvisedPlace>(call, range, {}, preferred)));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      return store(DeviceOf(CommonValue<AdvisedPlace>(call, range, {}, prefetched)));
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: return store(CommonValue<AdvisedPlace>(call, range, {}, preferred).type);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: return store(CommonValue<AdvisedPlace>(call, range, {}, preferred).id);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return store(CommonValue<AdvisedPlace>(call, range, {}, prefetched).type);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      return store(CommonValue<AdvisedPlace>(call, range, {}, prefetched).id);
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: {
      // A list of devices, as long as there is room, filled up with no device.
      if (bytes == 0 || bytes % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
      const auto devices = CommonValue<std::set<int>>(call, range, {}, [](const Advice& advice) { return advice.accessed_by; });
      std::vector<int> list(devices.begin(), devices.end());
      list.resize(bytes / sizeof(int), CU_DEVICE_INVALID);
      std::memcpy(data, list.data(), bytes);
      return CUDA_SUCCESS;
    }
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// What the batched forms check of their arrays. `locations`: of the forms that have them.
bool CheckBatch(Call& call, const CUdeviceptr* addresses, const size_t* sizes, size_t count, unsigned long long flags) {
  if (!call.ok()) return false;
  bool good = addresses != nullptr && sizes != nullptr && count != 0 && flags == 0;
  for (size_t i = 0; good && i < count; ++i) good = IsManaged(call, addresses[i], sizes[i]);
  return good || call.Fail(CUDA_ERROR_INVALID_VALUE) == CUDA_SUCCESS;
}

CUresult PrefetchBatch(Call& call, const CUdeviceptr* addresses, const size_t* sizes, size_t count,
                       const CUmemLocation* locations, const size_t* first, size_t location_count, unsigned long long flags,
                       CUstream stream) {
  if (!CheckBatch(call, addresses, sizes, count, flags)) return call.result();
  bool good = locations != nullptr && first != nullptr && location_count != 0 && location_count <= count && first[0] == 0;
  for (size_t i = 1; good && i < location_count; ++i) good = first[i] > first[i - 1] && first[i] < count;
  if (!good) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  size_t location = 0;
  for (size_t i = 0; i < count; ++i) {
    if (location + 1 < location_count && first[location + 1] == i) ++location;
    const CUresult result = Prefetch(call, addresses[i], sizes[i], locations[location], stream);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// Of a block that was refused, though natively there may be more managed memory than the device has.
void TellNotPaged(uint64_t bytes) {
  if (!FirstTime("managed memory is not paged")) return;
  LogWarning(
      "{} bytes of managed memory are more than is free of the GPU, which has all of it here: natively its pages move to the "
      "host. Ask for less, or use pinned memory",
      bytes);
}

// Memory for one block, or for a span of them: `add` makes managed memory of it, or fails.
template <typename Add>
CUresult AllocateFor(Call& call, uint64_t bytes, const Add& add) {
  const Range& window = call.session().memory().windows().device;
  cuMemAlloc_v2Request request;
  request.bytesize = bytes < kSharedPagesBelowBytes ? bytes + kManagedPageBytes : bytes;
  cuMemAlloc_v2Reply reply;
  if (const CUresult result = call.SyncAs(request, &reply); result != CUDA_SUCCESS) {
    if (result == CUDA_ERROR_OUT_OF_MEMORY) TellNotPaged(bytes);
    return result;
  }
  const Range range{WholePages(reply.dptr), bytes};
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (range.end() <= reply.dptr + request.bytesize && window.contains(range.base, range.bytes)) result = add(range, reply.dptr);
  if (result == CUDA_SUCCESS) return result;
  cuMemFree_v2Request free;
  free.dptr = reply.dptr;
  call.SyncAs(free);
  return call.Fail(result);
}

// In a span with others (managed/small_blocks.h).
CUresult AllocateSmall(Call& call, uint64_t bytes, std::optional<Range>* taken) {
  if (const CUresult result = Managed(call).TakeSmall(bytes, call.owner_context(), taken); result != CUDA_SUCCESS) {
    return call.Fail(result);
  }
  if (*taken) return CUDA_SUCCESS;
  return AllocateFor(call, SmallBlocks::kSpanBytes, [&](const Range& span, uint64_t freed_by) {
    return Managed(call).AddSpan(span, freed_by, call.owner_context(), bytes, taken);
  });
}

}  // namespace

CUresult Custom_cuMemAllocManaged(Call& call, CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  if (!call.ok()) return call.result();
  if (dptr == nullptr || bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  ClientMemory& memory = call.session().memory();
  if (bytesize > memory.windows().device.bytes) {
    TellNotPaged(bytesize);
    return call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  std::optional<Range> range;
  CUresult result = CUDA_SUCCESS;
  // What begins at the host will be attached to a stream: alone, it is that stream's alone.
  if (bytesize <= SmallBlocks::kBlockBytesMax && flags == CU_MEM_ATTACH_GLOBAL) {
    result = AllocateSmall(call, bytesize, &range);
  } else {
    result = AllocateFor(call, WholePages(bytesize), [&](const Range& block, uint64_t freed_by) {
      range = block;
      return Managed(call).Add(block, freed_by, call.owner_context());
    });
  }
  if (result != CUDA_SUCCESS) return result;
  DeviceAllocation allocation;
  allocation.range = Range{range->base, bytesize};
  allocation.kind = DeviceAllocation::Kind::kManaged;
  allocation.device = call.thread().current()->device;
  allocation.context = call.owner_context();
  memory.device().Add(allocation);
  *dptr = range->base;
  return CUDA_SUCCESS;
}

CUresult Custom_cuStreamAttachMemAsync(Call& call, CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
  if (!call.ok()) return call.result();
  const HandleId stream = call.UseStream(hStream);
  if (!call.ok()) return call.result();
  const auto allocation = call.session().memory().device().Find(dptr);
  const bool whole = allocation && allocation->kind == DeviceAllocation::Kind::kManaged && dptr == allocation->range.base &&
                     (length == 0 || length == allocation->range.bytes);
  const bool single = flags == CU_MEM_ATTACH_SINGLE;
  if (!whole || (!single && flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  // Memory cannot be attached to the default stream. That of the thread is not told apart from it (pending_work.h): then any
  // stream may use the memory.
  const auto of_thread = reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD);
  if (single && stream.value() < of_thread) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (call.capturing()) return call.Fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return call.Fail(Managed(call).Attach(dptr, single && stream.value() != of_thread ? stream : HandleId()));
}

CUresult Custom_cuMemAdvise(Call& call, CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
  if (!call.ok()) return call.result();
  return Advise(call, devPtr, count, advice, LocationOf(device), CUDA_ERROR_INVALID_DEVICE);
}

CUresult Custom_cuMemAdvise_v2(Call& call, CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
  if (!call.ok()) return call.result();
  return Advise(call, devPtr, count, advice, location, CUDA_ERROR_INVALID_VALUE);
}

CUresult Custom_cuMemRangeGetAttribute(Call& call, void* data, size_t dataSize, CUmem_range_attribute attribute,
                                       CUdeviceptr devPtr, size_t count) {
  if (!call.ok()) return call.result();
  if (!IsManaged(call, devPtr, count)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  return call.Fail(RangeAttribute(call, data, dataSize, attribute, Range{devPtr, count}));
}

CUresult Custom_cuMemRangeGetAttributes(Call& call, void** data, size_t* dataSizes, CUmem_range_attribute* attributes,
                                        size_t numAttributes, CUdeviceptr devPtr, size_t count) {
  if (!call.ok()) return call.result();
  if (data == nullptr || dataSizes == nullptr || attributes == nullptr || numAttributes == 0 || !IsManaged(call, devPtr, count)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  for (size_t i = 0; i < numAttributes; ++i) {
    const CUresult result = RangeAttribute(call, data[i], dataSizes[i], attributes[i], Range{devPtr, count});
    if (result != CUDA_SUCCESS) return call.Fail(result);
  }
  return CUDA_SUCCESS;
}

CUresult Custom_cuMemPrefetchAsync(Call& call, CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
  if (!call.ok()) return call.result();
  return Prefetch(call, devPtr, count, LocationOf(dstDevice), hStream);
}

CUresult Custom_cuMemPrefetchAsync_v2(Call& call, CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                                      CUstream hStream) {
  if (!call.ok()) return call.result();
  if (flags != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  return Prefetch(call, devPtr, count, location, hStream);
}

CUresult Custom_cuMemPrefetchBatchAsync(Call& call, CUdeviceptr* dptrs, size_t* sizes, size_t count, CUmemLocation* prefetchLocs,
                                        size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
                                        CUstream hStream) {
  return PrefetchBatch(call, dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
}

// What is discarded may keep its contents: reading it before it is written again gives any values.
CUresult Custom_cuMemDiscardBatchAsync(Call& call, CUdeviceptr* dptrs, size_t* sizes, size_t count, unsigned long long flags,
                                       CUstream hStream) {
  if (!CheckBatch(call, dptrs, sizes, count, flags)) return call.result();
  call.UseStream(hStream);
  return call.result();
}

CUresult Custom_cuMemDiscardAndPrefetchBatchAsync(Call& call, CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                                  CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs, size_t numPrefetchLocs,
                                                  unsigned long long flags, CUstream hStream) {
  return PrefetchBatch(call, dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
}

}  // namespace tessera
