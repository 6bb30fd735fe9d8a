// Blocks, pools, mappings, and what an address is.
#include <fcntl.h>
#include <unistd.h>

#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;

template <typename Value = uint64_t>
CUresult Attribute(CUpointer_attribute attribute, CUdeviceptr address) {
  Value value{};
  return cuPointerGetAttribute(&value, attribute, address);
}

CUresult SyncMemops(CUdeviceptr address) {
  const unsigned on = 1;
  return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
}

CUresult RangeOf(CUdeviceptr address) {
  CUdeviceptr base;
  size_t bytes;
  return cuMemGetAddressRange(&base, &bytes, address);
}

CUresult ShareMemory(CUdeviceptr address) {
  CUipcMemHandle handle;
  return cuIpcGetMemHandle(&handle, address);
}

CUresult Allow(CUdeviceptr address, size_t bytes) {
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return cuMemSetAccess(address, bytes, &access, 1);
}

CUresult Export(CUmemGenericAllocationHandle memory, CUmemAllocationHandleType type) {
  int descriptor = -1;
  const CUresult result = cuMemExportToShareableHandle(&descriptor, memory, type, 0);
  if (result == CUDA_SUCCESS) close(descriptor);
  return result;
}

CUresult Create(CUmemLocationType location, int id) {
  CUmemAllocationProp prop = OnDevice();
  prop.location = {location, id};
  CUmemGenericAllocationHandle memory;
  const CUresult result = cuMemCreate(&memory, kMapped, &prop, 0);
  if (result == CUDA_SUCCESS) cuMemRelease(memory);
  return result;
}

template <typename Import>
CUresult ImportFile(Import import) {
  const int file = open("/dev/null", O_RDONLY);
  const CUresult result = import(reinterpret_cast<void*>(static_cast<intptr_t>(file)));
  close(file);
  return result;
}

CUresult Reserve(size_t bytes, size_t alignment = 0, CUdeviceptr wish = 0, unsigned long long flags = 0) {
  CUdeviceptr address = 0;
  const CUresult result = cuMemAddressReserve(&address, bytes, alignment, wish, flags);
  if (result == CUDA_SUCCESS) cuMemAddressFree(address, bytes);
  return result;
}

const Row kRows[] = {
    {"cuMemFree: inside a block", "calls/memory.cc", kInvalid, [] { return cuMemFree(Block() + 512); }},
    {"cuMemFree: a second time", "calls/memory.cc", kInvalid, [] { return cuMemFree(Gone<Block>()); }},
    {"cuMemFree: ordinary memory", "calls/memory.cc", kInvalid, [] { return cuMemFree(Pages().address()); }},
    {"cuMemFree: nowhere", "calls/memory.cc", kInvalid, [] { return cuMemFree(kNowhere); }},
    {"cuMemFree: pinned memory", "calls/memory.cc", kInvalid, [] { return cuMemFree(Pinned().address()); }},
    {"cuMemFree: registered memory", "calls/memory.cc", kInvalid, [] { return cuMemFree(Registered().address()); }},
    {"cuMemFree: a mapping", "calls/memory.cc", kInvalid, [] { return cuMemFree(Mapped()); }},
    {"cuMemFree: a variable", "calls/memory.cc", kInvalid, [] { return cuMemFree(Module().Variable()); }},
    {"cuMemFree: inside managed memory", "calls/memory.cc", kInvalid, [] { return cuMemFree(Managed() + 512); }},
    {"cuMemFree: pool memory", "calls/memory.cc", CUDA_SUCCESS,
     [] {
       CUdeviceptr p;
       CHECK_DRIVER(cuMemAllocAsync(&p, 64, nullptr));
       return cuMemFree(p);
     }},
    {"cuMemFree: inside pool memory", "calls/memory.cc", kInvalid, [] { return cuMemFree(Pooled() + 512); }},
    {"cuMemFree: another context is current", "calls/memory.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       const CUdeviceptr b = BlockOf(other);
       return cuMemFree(b);
     }},
    {"cuMemFree: of a context that was destroyed", "calls/memory.cc", kInvalid,
     [] {
       CUdeviceptr b;
       {
         OtherContext other;
         b = BlockOf(other);
       }
       return cuMemFree(b);
     }},
    {"cuMemFreeAsync: inside pool memory", "calls/pool.cc", kInvalid, [] { return cuMemFreeAsync(Pooled() + 512, Stream()); }},
    {"cuMemFreeAsync: a second time", "calls/pool.cc", kInvalid, [] { return cuMemFreeAsync(Gone<Pooled>(), Stream()); }},
    {"cuMemFreeAsync: a block", "calls/pool.cc", CUDA_SUCCESS,
     [] {
       Stream s;
       CUdeviceptr b;
       CHECK_DRIVER(cuMemAlloc(&b, 64));
       return cuMemFreeAsync(b, s);
     }},
    {"cuMemFreeAsync: inside a block", "calls/pool.cc", kInvalid, [] { return cuMemFreeAsync(Block() + 512, Stream()); }},
    {"cuMemFreeAsync: managed memory", "calls/pool.cc", CUDA_ERROR_NOT_SUPPORTED,
     [] { return cuMemFreeAsync(Managed(), Stream()); }},
    {"cuMemFreeAsync: a mapping", "calls/pool.cc", kInvalid, [] { return cuMemFreeAsync(Mapped(), Stream()); }},
    {"cuMemFreeAsync: a variable", "calls/pool.cc", kInvalid, [] { return cuMemFreeAsync(Module().Variable(), Stream()); }},
    {"cuMemFreeAsync: ordinary memory", "calls/pool.cc", kInvalid, [] { return cuMemFreeAsync(Pages().address(), Stream()); }},
    {"cuMemFreeAsync: pinned memory", "calls/pool.cc", kInvalid, [] { return cuMemFreeAsync(Pinned().address(), Stream()); }},
    {"cuMemFreeAsync: nowhere", "calls/pool.cc", kInvalid, [] { return cuMemFreeAsync(kNowhere, Stream()); }},

    {"cuMemGetAddressRange: ordinary memory", "calls/memory.cc", CUDA_ERROR_NOT_FOUND, [] { return RangeOf(Pages().address()); }},
    {"cuMemGetAddressRange: nowhere", "calls/memory.cc", CUDA_ERROR_NOT_FOUND, [] { return RangeOf(kNowhere); }},
    {"cuMemGetAddressRange: freed memory", "calls/memory.cc", CUDA_ERROR_NOT_FOUND, [] { return RangeOf(Gone<Block>()); }},
    {"cuMemGetAddressRange: behind a block", "calls/memory.cc", CUDA_ERROR_NOT_FOUND, [] { return RangeOf(Block(100) + 100); }},
    {"cuMemGetAddressRange: reserved addresses", "calls/memory.cc", CUDA_ERROR_NOT_FOUND, [] { return RangeOf(Reserved()); }},
    {"cuMemGetAddressRange: mapping without access", "calls/memory.cc", CUDA_ERROR_NOT_FOUND,
     [] {
       Reserved r;
       Physical p;
       CHECK_DRIVER(cuMemMap(r, kMapped, 0, p, 0));
       const CUresult result = RangeOf(r);
       cuMemUnmap(r, kMapped);
       return result;
     },
     0, CUDA_SUCCESS, "client-stub/README.md"},

    {"cuPointerGetAttribute: ordinary memory", "calls/pointer_attributes.cc", kInvalid,
     [] { return Attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, Pages().address()); }},
    {"cuPointerGetAttribute: freed memory", "calls/pointer_attributes.cc", kInvalid,
     [] { return Attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, Gone<Block>()); }},
    {"cuPointerGetAttribute: reserved addresses", "calls/pointer_attributes.cc", kInvalid,
     [] { return Attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, Reserved()); }},
    {"cuPointerGetAttribute: DEVICE_POINTER of registered memory", "calls/pointer_attributes.cc", CUDA_SUCCESS,
     [] { return Attribute(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, Registered().address()); }, 0, kInvalid, "client-stub/README.md"},
    {"cuPointerGetAttribute: unknown attribute", "calls/pointer_attributes.cc", kInvalid,
     [] { return Attribute(static_cast<CUpointer_attribute>(99), Block()); }},
    {"cuPointerGetAttribute: HOST_POINTER of a block", "calls/pointer_attributes.cc", kInvalid,
     [] { return Attribute(CU_POINTER_ATTRIBUTE_HOST_POINTER, Block()); }},
    {"cuPointerGetAttribute: P2P_TOKENS of a block", "calls/pointer_attributes.cc", CUDA_SUCCESS,
     [] {
       Block b;
       CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
       return cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, b);
     }},
    {"cuPointerGetAttribute: P2P_TOKENS of pinned memory", "calls/pointer_attributes.cc", kInvalid,
     [] {
       Pinned p;
       CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
       return cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, p.address());
     }},
    {"cuPointerGetAttribute: unknown attribute", "calls/pointer_attributes.cc", kInvalid,
     [] { return Attribute(static_cast<CUpointer_attribute>(99), Block()); }},
    {"cuPointerGetAttributes: P2P_TOKENS", "calls/pointer_attributes.cc", kInvalid,
     [] {
       CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
       CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_P2P_TOKENS;
       void* data = &tokens;
       return cuPointerGetAttributes(1, &attribute, &data, Block());
     }},
    {"cuPointerGetAttribute: MEMPOOL_HANDLE of a block", "calls/pointer_attributes.cc", CUDA_SUCCESS,
     [] { return Attribute(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, Block()); }},
    {"cuPointerSetAttribute: block", "calls/pointer_attributes.cc", CUDA_SUCCESS, [] { return SyncMemops(Block()); }},
    {"cuPointerSetAttribute: inside a block", "calls/pointer_attributes.cc", CUDA_SUCCESS,
     [] { return SyncMemops(Block() + 100); }},
    {"cuPointerSetAttribute: ordinary memory", "calls/pointer_attributes.cc", kInvalid,
     [] { return SyncMemops(Pages().address()); }},
    {"cuPointerSetAttribute: pinned memory", "calls/pointer_attributes.cc", CUDA_SUCCESS,
     [] { return SyncMemops(Pinned().address()); }},
    {"cuPointerSetAttribute: registered memory", "calls/pointer_attributes.cc", CUDA_SUCCESS,
     [] { return SyncMemops(Registered().address()); }},
    {"cuPointerSetAttribute: pool memory", "calls/pointer_attributes.cc", CUDA_SUCCESS, [] { return SyncMemops(Pooled()); }},
    {"cuPointerSetAttribute: managed memory", "calls/pointer_attributes.cc", CUDA_SUCCESS, [] { return SyncMemops(Managed()); }},
    {"cuPointerSetAttribute: a mapping", "calls/pointer_attributes.cc", CUDA_ERROR_NOT_SUPPORTED,
     [] { return SyncMemops(Mapped()); }},
    {"cuPointerSetAttribute: a variable", "calls/pointer_attributes.cc", CUDA_SUCCESS,
     [] { return SyncMemops(Module().Variable()); }},
    {"cuPointerSetAttribute: freed memory", "calls/pointer_attributes.cc", kInvalid, [] { return SyncMemops(Gone<Block>()); }},
    {"cuPointerSetAttribute: attribute that is only read", "calls/pointer_attributes.cc", kInvalid,
     [] {
       Block b;
       const unsigned on = 1;
       return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b);
     }},

    {"cuIpcGetMemHandle: inside a block", "calls/ipc.cc", CUDA_SUCCESS, [] { return ShareMemory(Block() + 100); }},
    {"cuIpcGetMemHandle: pool memory", "calls/ipc.cc", kInvalid, [] { return ShareMemory(Pooled()); }},
    {"cuIpcGetMemHandle: managed memory", "calls/ipc.cc", kInvalid, [] { return ShareMemory(Managed()); }},
    {"cuIpcGetMemHandle: a mapping", "calls/ipc.cc", kInvalid, [] { return ShareMemory(Mapped()); }},
    {"cuIpcGetMemHandle: a variable", "calls/ipc.cc", kInvalid, [] { return ShareMemory(Module().Variable()); }},
    {"cuIpcGetMemHandle: pinned memory", "calls/ipc.cc", kInvalid, [] { return ShareMemory(Pinned().address()); }},
    {"cuIpcGetMemHandle: ordinary memory", "calls/ipc.cc", kInvalid, [] { return ShareMemory(Pages().address()); }},
    {"cuIpcGetMemHandle: freed memory", "calls/ipc.cc", kInvalid, [] { return ShareMemory(Gone<Block>()); }},
    {"cuIpcOpenMemHandle: bytes that no process gave", "calls/ipc.cc", kInvalid,
     [] {
       CUipcMemHandle handle{};
       CUdeviceptr p;
       return cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
     }},
    {"cuIpcOpenMemHandle: of this process", "server/worker", CUDA_ERROR_INVALID_CONTEXT,
     [] {
       Block b;
       CUipcMemHandle handle{};
       CHECK_DRIVER(cuIpcGetMemHandle(&handle, b));
       CUdeviceptr p;
       return cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
     }},
    {"cuIpcOpenMemHandle: unknown flags", "calls/ipc.cc", kInvalid,
     [] {
       Block b;
       CUipcMemHandle handle{};
       CHECK_DRIVER(cuIpcGetMemHandle(&handle, b));
       CUdeviceptr p;
       return cuIpcOpenMemHandle(&p, handle, 0);
     }},
    {"cuIpcCloseMemHandle: a block of this process", "calls/ipc.cc", kInvalid, [] { return cuIpcCloseMemHandle(Block()); }},
    {"cuIpcCloseMemHandle: ordinary memory", "calls/ipc.cc", kInvalid, [] { return cuIpcCloseMemHandle(Pages().address()); }},
    {"cuIpcGetEventHandle: event that is not for other processes", "calls/ipc.cc", CUDA_ERROR_INVALID_HANDLE,
     [] { return cuIpcGetEventHandle(Out<CUipcEventHandle>(), Event(CU_EVENT_DISABLE_TIMING)); }},
    {"cuIpcOpenEventHandle: bytes that no process gave", "calls/ipc.cc", CUDA_ERROR_MAP_FAILED,
     [] {
       CUipcEventHandle handle{};
       CUevent event;
       return cuIpcOpenEventHandle(&event, handle);
     }},

    {"cuMemAddressFree: something is mapped", "calls/virtual_memory.cc", kInvalid,
     [] { return cuMemAddressFree(Mapped(), 2 * kMapped); }},
    {"cuMemAddressFree: a part", "calls/virtual_memory.cc", kInvalid, [] { return cuMemAddressFree(Reserved(), kMapped); }},
    {"cuMemAddressFree: a second time", "calls/virtual_memory.cc", kInvalid,
     [] { return cuMemAddressFree(Gone<Reserved>(), 2 * kMapped); }},
    {"cuMemAddressFree: a block", "calls/virtual_memory.cc", kInvalid, [] { return cuMemAddressFree(Block(kMapped), kMapped); }},
    {"cuMemAddressFree: ordinary memory", "calls/virtual_memory.cc", kInvalid,
     [] { return cuMemAddressFree(Pages().address(), kMapped); }},
    {"cuMemAddressReserve: no multiple of 2 MiB", "memory/address_reservations.cc", kInvalid,
     [] { return Reserve(kMapped + 1); }},
    {"cuMemAddressReserve: alignment that is no power of two", "memory/address_reservations.cc", kInvalid,
     [] { return Reserve(kMapped, 3); }},
    {"cuMemAddressReserve: wish for an address between pages", "memory/address_reservations.cc", kInvalid,
     [] { return Reserve(kMapped, 0, 0x200000001000); }},
    {"cuMemAddressReserve: more than an address space", "memory/address_reservations.cc", CUDA_ERROR_OUT_OF_MEMORY,
     [] { return Reserve(size_t{256} << 40); }},
    {"cuMemAddressReserve: flags", "calls/virtual_memory.cc", kInvalid, [] { return Reserve(kMapped, 0, 0, 1); }},
    {"cuMemMap: addresses that are not reserved", "calls/virtual_memory.cc", kInvalid,
     [] { return cuMemMap(Gone<Reserved>(), kMapped, 0, Physical(), 0); }},
    {"cuMemMap: ordinary memory", "calls/virtual_memory.cc", kInvalid,
     [] { return cuMemMap((Pages(1024).address() + kMapped - 1) & ~(kMapped - 1), kMapped, 0, Physical(), 0); }},
    {"cuMemMap: where something is mapped", "calls/virtual_memory.cc", kInvalid,
     [] { return cuMemMap(Mapped(), kMapped, 0, Physical(), 0); }},
    {"cuMemMap: released memory", "call/call.cc", kInvalid, [] { return cuMemMap(Reserved(), kMapped, 0, Gone<Physical>(), 0); },
     kDangerous},
    {"cuMemMap: offset", "calls/virtual_memory.cc", CUDA_ERROR_NOT_SUPPORTED,
     [] { return cuMemMap(Reserved(), kMapped, kMapped, Physical(), 0); }, kNeedsGpu},
    {"cuMemUnmap: nothing is mapped", "calls/virtual_memory.cc", CUDA_SUCCESS, [] { return cuMemUnmap(Reserved(), kMapped); }},
    {"cuMemUnmap: a part of a mapping", "calls/virtual_memory.cc", kInvalid, [] { return cuMemUnmap(Mapped(), kMapped / 2); }},
    {"cuMemUnmap: a mapping and what is behind it", "calls/virtual_memory.cc", CUDA_SUCCESS,
     [] { return cuMemUnmap(Mapped(), 2 * kMapped); }},
    {"cuMemUnmap: a block", "calls/virtual_memory.cc", kInvalid, [] { return cuMemUnmap(Block(kMapped), kMapped); }},
    {"cuMemUnmap: ordinary memory", "calls/virtual_memory.cc", kInvalid, [] { return cuMemUnmap(Pages().address(), 4096); }},
    {"cuMemSetAccess: nothing is mapped", "calls/virtual_memory.cc", kInvalid, [] { return Allow(Reserved(), kMapped); }},
    {"cuMemSetAccess: a block", "calls/virtual_memory.cc", kInvalid, [] { return Allow(Block(kMapped), kMapped); }},
    {"cuMemSetAccess: ordinary memory", "calls/virtual_memory.cc", kInvalid, [] { return Allow(Pages().address(), 4096); }},
    {"cuMemGetAccess: ordinary memory", "calls/virtual_memory.cc", kInvalid,
     [] {
       Pages p;
       unsigned long long flags;
       const CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 0};
       return cuMemGetAccess(&flags, &here, p.address());
     }},
    {"cuMemRelease: a second time", "call/call.cc", kInvalid, [] { return cuMemRelease(Gone<Physical>()); }},
    {"cuMemRetainAllocationHandle: a block", "calls/virtual_memory.cc", kInvalid,
     [] { return cuMemRetainAllocationHandle(Out<CUmemGenericAllocationHandle>(), reinterpret_cast<void*>(Block().it)); }},
    {"cuMemRetainAllocationHandle: nothing is mapped", "calls/virtual_memory.cc", kInvalid,
     [] { return cuMemRetainAllocationHandle(Out<CUmemGenericAllocationHandle>(), reinterpret_cast<void*>(Reserved().it)); }},
    {"cuMemRetainAllocationHandle: ordinary memory", "calls/virtual_memory.cc", kInvalid,
     [] { return cuMemRetainAllocationHandle(Out<CUmemGenericAllocationHandle>(), Pages()); }},
    {"cuMemCreate: on a device that does not exist", "server/worker", CUDA_ERROR_INVALID_DEVICE,
     [] { return Create(CU_MEM_LOCATION_TYPE_DEVICE, 99); }},
    {"cuMemExportToShareableHandle: type that was not asked for", "server/worker", kInvalid,
     [] { return Export(Physical(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR); }},
    {"cuMemExportToShareableHandle: type of another system", "calls/share.cc", kInvalid,
     [] { return Export(Physical(), CU_MEM_HANDLE_TYPE_WIN32); }},
    {"cuMemExportToShareableHandle: fabric handle", "calls/share.cc", kInvalid,
     [] {
       Physical p;
       CUmemFabricHandle fabric;
       return cuMemExportToShareableHandle(&fabric, p, CU_MEM_HANDLE_TYPE_FABRIC, 0);
     }},
    {"cuMemImportFromShareableHandle: another file", "calls/share.cc", CUDA_ERROR_UNKNOWN,
     [] {
       return ImportFile([](void* file) {
         CUmemGenericAllocationHandle h;
         return cuMemImportFromShareableHandle(&h, file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
       });
     }},
    {"cuMemImportFromShareableHandle: fabric handle", "calls/share.cc", CUDA_ERROR_NOT_SUPPORTED,
     [] {
       CUmemFabricHandle fabric{};
       return cuMemImportFromShareableHandle(Out<CUmemGenericAllocationHandle>(), &fabric, CU_MEM_HANDLE_TYPE_FABRIC);
     }},
    {"cuMemImportFromShareableHandle: no type", "calls/share.cc", kInvalid,
     [] {
       return ImportFile([](void* file) {
         return cuMemImportFromShareableHandle(Out<CUmemGenericAllocationHandle>(), file, CU_MEM_HANDLE_TYPE_NONE);
       });
     }},
    {"cuMemImportFromShareableHandle: type of another system", "calls/share.cc", CUDA_ERROR_NOT_SUPPORTED,
     [] {
       return ImportFile([](void* file) {
         CUmemGenericAllocationHandle h;
         return cuMemImportFromShareableHandle(&h, file, CU_MEM_HANDLE_TYPE_WIN32);
       });
     }},
};

}  // namespace

std::span<const Row> MemoryRows() { return kRows; }

}  // namespace refusals
