// Pinned and registered memory.
#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
constexpr CUresult kAlready = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;

CUresult DevicePointer(void* host) {
  CUdeviceptr device;
  return cuMemHostGetDevicePointer(&device, host, 0);
}

// Registers, and takes it back if that succeeds.
CUresult Register(void* host, size_t bytes, unsigned flags = 0) {
  const CUresult result = cuMemHostRegister(host, bytes, flags);
  if (result == CUDA_SUCCESS) cuMemHostUnregister(host);
  return result;
}

// While pages 1 and 2 of five are registered.
CUresult Overlap(size_t first, size_t count) {
  Pages pages(5);
  CHECK_DRIVER(cuMemHostRegister(pages.it + 4096, 8192, 0));
  const CUresult result = Register(pages.it + first * 4096, count * 4096);
  cuMemHostUnregister(pages.it + 4096);
  return result;
}

CUresult UnregisterAt(size_t offset) {
  Registered r;
  return cuMemHostUnregister(r.it + offset);
}

const Row kRows[] = {
    {"cuMemFreeHost: registered memory", "memory/host_memory.cc", kInvalid, [] { return cuMemFreeHost(Registered()); }},
    {"cuMemFreeHost: ordinary memory", "memory/host_memory.cc", kInvalid, [] { return cuMemFreeHost(Pages()); }},
    {"cuMemFreeHost: inside pinned memory", "memory/host_memory.cc", kInvalid,
     [] { return cuMemFreeHost(static_cast<char*>(Pinned().it) + 512); }},
    {"cuMemFreeHost: a second time", "memory/host_memory.cc", kInvalid,
     [] {
       void* const gone = Gone<Pinned>();
       return cuMemFreeHost(gone);
     }},
    {"cuMemFreeHost: a block", "memory/host_memory.cc", kInvalid,
     [] { return cuMemFreeHost(reinterpret_cast<void*>(Block().it)); }},
    {"cuMemFreeHost: managed memory", "memory/host_memory.cc", kInvalid,
     [] { return cuMemFreeHost(reinterpret_cast<void*>(Managed().it)); }},
    {"cuMemFreeHost: another context is current", "memory/host_memory.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       void* p = other.In([] {
         void* made;
         CHECK_DRIVER(cuMemHostAlloc(&made, 64, 0));
         return made;
       });
       return cuMemFreeHost(p);
     }},
    {"cuMemHostAlloc: unknown flags", "calls/host_memory.cc", kInvalid,
     [] {
       void* p;
       return cuMemHostAlloc(&p, 64, 0x80);
     }},
    {"cuMemHostGetDevicePointer: ordinary memory", "calls/host_memory.cc", kInvalid, [] { return DevicePointer(Pages()); }},
    {"cuMemHostGetDevicePointer: a block", "calls/host_memory.cc", kInvalid,
     [] { return DevicePointer(reinterpret_cast<void*>(Block().it)); }},
    {"cuMemHostGetDevicePointer: managed memory", "calls/host_memory.cc", kInvalid,
     [] { return DevicePointer(reinterpret_cast<void*>(Managed().it)); }},
    {"cuMemHostGetDevicePointer: freed memory", "calls/host_memory.cc", kInvalid,
     [] {
       void* const gone = Gone<Pinned>();
       return DevicePointer(gone);
     }},
    {"cuMemHostGetDevicePointer: behind registered memory", "calls/host_memory.cc", kInvalid,
     [] {
       Pages p;
       CHECK_DRIVER(cuMemHostRegister(p, 4096, 0));
       const CUresult result = DevicePointer(p.it + 4096);
       cuMemHostUnregister(p);
       return result;
     }},
    {"cuMemHostGetDevicePointer: flags", "calls/host_memory.cc", kInvalid,
     [] { return cuMemHostGetDevicePointer(Out<CUdeviceptr>(), Pinned(), 1); }},
    {"cuMemHostGetFlags: ordinary memory", "calls/host_memory.cc", kInvalid,
     [] { return cuMemHostGetFlags(Out<unsigned>(), Pages()); }},
    {"cuMemHostGetFlags: a block", "calls/host_memory.cc", kInvalid,
     [] { return cuMemHostGetFlags(Out<unsigned>(), reinterpret_cast<void*>(Block().it)); }},
    {"cuMemHostGetFlags: inside pinned memory", "calls/host_memory.cc", CUDA_SUCCESS,
     [] { return cuMemHostGetFlags(Out<unsigned>(), static_cast<char*>(Pinned().it) + 100); }},

    {"cuMemHostRegister: the same range again", "memory/host_memory.cc", kAlready, [] { return Overlap(1, 2); }},
    {"cuMemHostRegister: its first page", "memory/host_memory.cc", kAlready, [] { return Overlap(1, 1); }},
    {"cuMemHostRegister: its last page", "memory/host_memory.cc", kAlready, [] { return Overlap(2, 1); }},
    {"cuMemHostRegister: from before into it", "memory/host_memory.cc", kAlready, [] { return Overlap(0, 2); }},
    {"cuMemHostRegister: from within beyond it", "memory/host_memory.cc", kAlready, [] { return Overlap(2, 2); }},
    {"cuMemHostRegister: all around it", "memory/host_memory.cc", kAlready, [] { return Overlap(0, 5); }},
    {"cuMemHostRegister: just before it", "memory/host_memory.cc", CUDA_SUCCESS, [] { return Overlap(0, 1); }},
    {"cuMemHostRegister: just behind it", "memory/host_memory.cc", CUDA_SUCCESS, [] { return Overlap(3, 1); }},
    {"cuMemHostRegister: another byte of a registered page", "memory/host_memory.cc", CUDA_SUCCESS,
     [] {
       Pages p;
       CHECK_DRIVER(cuMemHostRegister(p, 100, 0));
       const CUresult result = cuMemHostRegister(p.it + 200, 100, 0);
       cuMemHostUnregister(p.it + 200);
       cuMemHostUnregister(p);
       return result;
     }},
    {"cuMemHostRegister: pinned memory", "memory/host_memory.cc", kInvalid, [] { return Register(Pinned(), 4096, 0); }},
    {"cuMemHostRegister: from pinned memory beyond it", "memory/host_memory.cc", kInvalid,
     [] {
       Pinned p;
       return Register(p, 8192);
     }},
    {"cuMemHostRegister: the second page is read-only", "calls/host_memory.cc", kInvalid,
     [] {
       Pages p;
       mprotect(p.it + 4096, 4096, PROT_READ);
       return Register(p, 8192);
     }},
    {"cuMemHostRegister: pages without access, READ_ONLY", "calls/host_memory.cc", kInvalid,
     [] {
       Pages p;
       mprotect(p.it, p.bytes, PROT_NONE);
       return Register(p, 4096, CU_MEMHOSTREGISTER_READ_ONLY);
     }},
    {"cuMemHostRegister: the program's own code", "calls/host_memory.cc", kInvalid,
     [] { return Register(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(&Overlap) & ~uintptr_t{4095}), 4096); }},
    {"cuMemHostRegister: a block", "calls/host_memory.cc", kInvalid,
     [] { return Register(reinterpret_cast<void*>(Block().it), 4096, 0); }},
    {"cuMemHostRegister: managed memory", "calls/host_memory.cc", kInvalid,
     [] { return Register(reinterpret_cast<void*>(Managed().it), 4096, 0); }},
    {"cuMemHostRegister: a mapping", "calls/host_memory.cc", kInvalid,
     [] { return Register(reinterpret_cast<void*>(Mapped().range.it), 4096, 0); }},
    {"cuMemHostRegister: reserved addresses", "calls/host_memory.cc", kInvalid,
     [] { return Register(reinterpret_cast<void*>(Reserved().it), 4096, 0); }},
    {"cuMemHostRegister: nothing is mapped", "calls/host_memory.cc", kInvalid,
     [] {
       void* const gone = Gone<Pages>();
       return Register(gone, 4096, 0);
     }},
    {"cuMemHostRegister: the second page is not mapped", "calls/host_memory.cc", kInvalid,
     [] {
       Pages p;
       munmap(p.it + 4096, 4096);
       return Register(p, 8192, 0);
     }},
    {"cuMemHostRegister: read-only pages", "calls/host_memory.cc", kInvalid,
     [] {
       Pages p;
       mprotect(p.it, p.bytes, PROT_READ);
       return Register(p, 4096, 0);
     }},
    {"cuMemHostRegister: read-only pages, READ_ONLY", "calls/host_memory.cc", CUDA_SUCCESS,
     [] {
       Pages p;
       mprotect(p.it, p.bytes, PROT_READ);
       return Register(p, 4096, CU_MEMHOSTREGISTER_READ_ONLY);
     }},
    {"cuMemHostRegister: READ_ONLY", "calls/host_memory.cc", CUDA_SUCCESS,
     [] { return Register(Pages(), 4096, CU_MEMHOSTREGISTER_READ_ONLY); }},
    {"cuMemHostRegister: pages without access", "calls/host_memory.cc", kInvalid,
     [] {
       Pages p;
       mprotect(p.it, p.bytes, PROT_NONE);
       return Register(p, 4096, 0);
     }},
    {"cuMemHostRegister: IOMEMORY", "calls/host_memory.cc", kInvalid,
     [] { return Register(Pages(), 4096, CU_MEMHOSTREGISTER_IOMEMORY); }},
    {"cuMemHostRegister: unknown flags", "calls/host_memory.cc", kInvalid, [] { return Register(Pages(), 4096, 0x80); }},

    {"cuMemHostUnregister: ordinary memory", "calls/host_memory.cc", CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
     [] { return cuMemHostUnregister(Pages()); }},
    {"cuMemHostUnregister: a second time", "calls/host_memory.cc", CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
     [] {
       Pages p;
       CHECK_DRIVER(cuMemHostRegister(p, 4096, 0));
       CHECK_DRIVER(cuMemHostUnregister(p));
       return cuMemHostUnregister(p);
     }},
    {"cuMemHostUnregister: base + 1", "calls/host_memory.cc", kInvalid, [] { return UnregisterAt(1); }},
    {"cuMemHostUnregister: a page inside", "calls/host_memory.cc", kInvalid, [] { return UnregisterAt(4096); }},
    {"cuMemHostUnregister: just behind", "calls/host_memory.cc", CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
     [] { return UnregisterAt(16384); }},
    {"cuMemHostUnregister: pinned memory", "calls/host_memory.cc", kInvalid, [] { return cuMemHostUnregister(Pinned()); }},
    {"cuMemHostUnregister: a block", "calls/host_memory.cc", kInvalid,
     [] { return cuMemHostUnregister(reinterpret_cast<void*>(Block().it)); }},
    {"cuMemHostUnregister: managed memory", "calls/host_memory.cc", kInvalid,
     [] { return cuMemHostUnregister(reinterpret_cast<void*>(Managed().it)); }},
};

}  // namespace

std::span<const Row> HostMemoryRows() { return kRows; }

}  // namespace refusals
