// Managed memory, and what the calls about it get for other memory.
#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
const CUmemLocation kDevice{CU_MEM_LOCATION_TYPE_DEVICE, 0};

CUresult Advise(CUdeviceptr address, CUmemLocation location = kDevice, CUmem_advise advice = CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                size_t bytes = 4096) {
  return cuMemAdvise(address, bytes, advice, location);
}

// The first form, which has no name in cuda.h any more.
CUresult AdviseOld(CUdeviceptr address, CUdevice device) {
  void* entry = nullptr;
  CHECK_DRIVER(cuGetProcAddress("cuMemAdvise", &entry, 8000, CU_GET_PROC_ADDRESS_DEFAULT, nullptr));
  return reinterpret_cast<CUresult (*)(CUdeviceptr, size_t, CUmem_advise, CUdevice)>(entry)(
      address, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device);
}

CUresult Prefetch(CUdeviceptr address, CUmemLocation location = kDevice, size_t bytes = 4096) {
  Stream s;
  return cuMemPrefetchAsync(address, bytes, location, 0, s);
}

CUresult RangeOf(CUdeviceptr address, CUmem_range_attribute attribute = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, size_t bytes = 4096) {
  int value;
  return cuMemRangeGetAttribute(&value, sizeof(value), attribute, address, bytes);
}

CUresult Attach(CUdeviceptr address, unsigned flags, size_t bytes = 0) {
  Stream s;
  return cuStreamAttachMemAsync(s, address, bytes, flags);
}

CUresult Discard(CUdeviceptr address) {
  Stream s;
  size_t bytes = 4096;
  return cuMemDiscardBatchAsync(&address, &bytes, 1, 0, s);
}

CUresult PrefetchMany(CUdeviceptr address) {
  Stream s;
  size_t bytes = 4096, first = 0;
  CUmemLocation location = kDevice;
  return cuMemPrefetchBatchAsync(&address, &bytes, 1, &location, &first, 1, 0, s);
}

const Row kRows[] = {
    {"cuMemAllocManaged: attached to one stream", "calls/managed.cc", kInvalid,
     [] { return cuMemAllocManaged(Out<CUdeviceptr>(), 4096, CU_MEM_ATTACH_SINGLE); }},
    {"cuMemAdvise: a block", "calls/managed.cc", kInvalid, [] { return Advise(Block()); }},
    {"cuMemAdvise: ordinary memory", "calls/managed.cc", kInvalid, [] { return Advise(Pages().address()); }},
    {"cuMemAdvise: pinned memory", "calls/managed.cc", kInvalid, [] { return Advise(Pinned().address()); }},
    {"cuMemAdvise: beyond the end", "calls/managed.cc", kInvalid,
     [] {
       Managed m;
       return Advise(m, kDevice, CU_MEM_ADVISE_SET_READ_MOSTLY, size_t{8} << 20);
     }},
    {"cuMemAdvise: freed memory", "calls/managed.cc", kInvalid, [] { return Advise(Gone<Managed>()); }},
    {"cuMemAdvise: device that does not exist", "calls/managed.cc", kInvalid,
     [] {
       Managed m;
       return Advise(m, {CU_MEM_LOCATION_TYPE_DEVICE, 99});
     }},
    {"cuMemAdvise_v1: device that does not exist", "calls/managed.cc", CUDA_ERROR_INVALID_DEVICE,
     [] { return AdviseOld(Managed(), 99); }},
    {"cuMemPrefetchAsync: unknown kind of place", "calls/managed.cc", kInvalid,
     [] {
       return Prefetch(Managed(), {static_cast<CUmemLocationType>(77), 0});
     }},
    {"cuMemAdvise: place of no kind", "calls/managed.cc", kInvalid,
     [] {
       return Advise(Managed(), {CU_MEM_LOCATION_TYPE_INVALID, 0});
     }},
    {"cuMemAdvise: unknown kind of place", "calls/managed.cc", kInvalid,
     [] {
       Managed m;
       return Advise(m, {static_cast<CUmemLocationType>(77), 0});
     }},
    {"cuMemAdvise: accessed by a node of the host", "calls/managed.cc", kInvalid,
     [] {
       Managed m;
       return Advise(m, {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, CU_MEM_ADVISE_SET_ACCESSED_BY);
     }},
    {"cuMemAdvise: unknown advice", "calls/managed.cc", kInvalid,
     [] { return Advise(Managed(), kDevice, static_cast<CUmem_advise>(99)); }},
    {"cuMemPrefetchAsync: a block", "calls/managed.cc", kInvalid, [] { return Prefetch(Block()); }},
    {"cuMemPrefetchAsync: ordinary memory", "calls/managed.cc", kInvalid, [] { return Prefetch(Pages().address()); }},
    {"cuMemPrefetchAsync: pinned memory", "calls/managed.cc", kInvalid, [] { return Prefetch(Pinned().address()); }},
    {"cuMemPrefetchAsync: device that does not exist", "calls/managed.cc", CUDA_ERROR_INVALID_DEVICE,
     [] {
       Managed m;
       return Prefetch(m, {CU_MEM_LOCATION_TYPE_DEVICE, 99});
     }},
    {"cuMemPrefetchAsync: to the device", "calls/managed.cc", CUDA_SUCCESS, [] { return Prefetch(Managed()); }},
    {"cuMemPrefetchAsync: to the host", "calls/managed.cc", CUDA_SUCCESS,
     [] {
       Managed m;
       return Prefetch(m, {CU_MEM_LOCATION_TYPE_HOST, 0});
     }},
    {"cuMemPrefetchAsync: flags", "calls/managed.cc", kInvalid,
     [] { return cuMemPrefetchAsync(Managed(), 4096, kDevice, 1, Stream()); }},
    {"cuMemRangeGetAttribute: a block", "calls/managed.cc", kInvalid, [] { return RangeOf(Block()); }},
    {"cuMemRangeGetAttribute: ordinary memory", "calls/managed.cc", kInvalid, [] { return RangeOf(Pages().address()); }},
    {"cuMemRangeGetAttribute: unknown attribute", "calls/managed.cc", kInvalid,
     [] { return RangeOf(Managed(), static_cast<CUmem_range_attribute>(99)); }},
    {"cuMemRangeGetAttributes: a block", "calls/managed.cc", kInvalid,
     [] {
       Block b;
       int value;
       void* data = &value;
       size_t bytes = 4;
       CUmem_range_attribute a = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
       return cuMemRangeGetAttributes(&data, &bytes, &a, 1, b, 4096);
     }},
    {"cuStreamAttachMemAsync: a block", "calls/managed.cc", kInvalid, [] { return Attach(Block(), CU_MEM_ATTACH_GLOBAL); }},
    {"cuStreamAttachMemAsync: ordinary memory", "calls/managed.cc", kInvalid,
     [] { return Attach(Pages().address(), CU_MEM_ATTACH_GLOBAL); }},
    {"cuStreamAttachMemAsync: inside", "calls/managed.cc", kInvalid,
     [] { return Attach(Managed() + 512, CU_MEM_ATTACH_GLOBAL); }},
    {"cuStreamAttachMemAsync: a part", "calls/managed.cc", kInvalid,
     [] { return Attach(Managed(), CU_MEM_ATTACH_GLOBAL, 2048); }},
    {"cuStreamAttachMemAsync: to a default stream", "calls/managed.cc", kInvalid,
     [] { return cuStreamAttachMemAsync(nullptr, Managed(), 0, CU_MEM_ATTACH_SINGLE); }},
    {"cuStreamAttachMemAsync: to the stream of the thread", "calls/managed.cc", CUDA_SUCCESS,
     [] { return cuStreamAttachMemAsync(CU_STREAM_PER_THREAD, Managed(), 0, CU_MEM_ATTACH_SINGLE); }},
    {"cuStreamAttachMemAsync: unknown flags", "calls/managed.cc", kInvalid, [] { return Attach(Managed(), 16); }},
    {"cuMemDiscardBatchAsync: a block", "calls/managed.cc", kInvalid, [] { return Discard(Block()); }},
    {"cuMemDiscardBatchAsync: ordinary memory", "calls/managed.cc", kInvalid, [] { return Discard(Pages().address()); }},
    {"cuMemDiscardBatchAsync: managed memory", "calls/managed.cc", CUDA_SUCCESS, [] { return Discard(Managed()); }},
    {"cuMemPrefetchBatchAsync: a block", "calls/managed.cc", kInvalid, [] { return PrefetchMany(Block()); }},
    {"cuMemPrefetchBatchAsync: managed memory", "calls/managed.cc", CUDA_SUCCESS, [] { return PrefetchMany(Managed()); }},
};

}  // namespace

std::span<const Row> ManagedRows() { return kRows; }

}  // namespace refusals
