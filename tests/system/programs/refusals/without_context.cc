// Calls of a thread that has no current context, or one that is gone: those that name an object which has a context
// need none.
#include <cudaProfiler.h>

#include <utility>

#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
constexpr CUresult kContext = CUDA_ERROR_INVALID_CONTEXT;
constexpr CUresult kDestroyed = CUDA_ERROR_CONTEXT_IS_DESTROYED;

// `ask` while a context is current that has been destroyed.
template <typename Ask>
CUresult InDestroyed(Ask ask) {
  OtherContext other;
  const CUcontext gone = std::exchange(other.it, nullptr);
  CHECK_DRIVER(cuCtxPushCurrent(gone));
  CHECK_DRIVER(cuCtxPushCurrent(gone));  // destroying it takes one away
  CHECK_DRIVER(cuCtxDestroy(gone));
  const CUresult result = ask();
  CUcontext popped;
  cuCtxPopCurrent(&popped);
  return result;
}

CUresult Allocate() {
  CUdeviceptr p;
  const CUresult result = cuMemAlloc(&p, 64);
  if (result == CUDA_SUCCESS) cuMemFree(p);
  return result;
}

const Row kRows[] = {

    {"cuMemAlloc: without a context", "call/call.cc", kContext, [] { return With(nullptr, Allocate); }},
    {"cuMemAlloc: destroyed context", "call/call.cc", kDestroyed, [] { return InDestroyed(Allocate); }},
    {"cuCtxSynchronize: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [] { return cuCtxSynchronize(); }); }},
    {"cuStreamSynchronize: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [] { return cuStreamSynchronize(nullptr); }); }},
    {"cuStreamSynchronize: destroyed context", "call/call.cc", kDestroyed,
     [] { return InDestroyed([] { return cuStreamSynchronize(nullptr); }); }},
    {"cuModuleLoadData: without a context", "call/call.cc", kContext,
     [] {
       return With(nullptr, [] {
         CUmodule m;
         return cuModuleLoadData(&m, kPtx);
       });
     }},
    {"cuEventCreate: without a context", "call/call.cc", kContext,
     [] {
       return With(nullptr, [] {
         CUevent e;
         return cuEventCreate(&e, 0);
       });
     }},
    {"cuMemFree: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Block b;
       return With(nullptr, [&] { return cuMemFree(b); });
     }},
    {"cuMemcpy: without a context", "call/call.cc", kContext,
     [] {
       Block b;
       return With(nullptr, [&] { return cuMemcpy(b, b + 64, 16); });
     }},
    {"cuGraphCreate: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       return With(nullptr, [] {
         CUgraph g;
         return cuGraphCreate(&g, 0);
       });
     }},
    {"cuPointerGetAttribute: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Block b;
       return With(nullptr, [&] {
         unsigned t;
         return cuPointerGetAttribute(&t, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b);
       });
     }},

    {"cuMemAllocHost: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuMemAllocHost(Out<void*>(), 64); }); }},
    {"cuMemHostAlloc: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuMemHostAlloc(Out<void*>(), 64, 0); }); }},
    {"cuMemFreeHost: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       void* p;
       CHECK_DRIVER(cuMemHostAlloc(&p, 64, 0));
       return With(nullptr, [&] { return cuMemFreeHost(p); });
     }},
    {"cuMemHostRegister: without a context", "call/call.cc", kContext,
     [] {
       Pages p;
       return With(nullptr, [&] { return cuMemHostRegister(p, 4096, 0); });
     }},
    {"cuMemHostUnregister: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Registered r;
       return With(nullptr, [&] { return cuMemHostUnregister(r); });
     }},
    {"cuMemHostGetDevicePointer: without a context", "call/call.cc", kContext,
     [] {
       Pinned p;
       return With(nullptr, [&] { return cuMemHostGetDevicePointer(Out<CUdeviceptr>(), p, 0); });
     }},
    {"cuMemHostGetFlags: without a context", "call/call.cc", kContext,
     [] {
       Pinned p;
       return With(nullptr, [&] { return cuMemHostGetFlags(Out<unsigned>(), p); });
     }},
    {"cuMemGetInfo: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuMemGetInfo(Out<size_t>(), Out<size_t>()); }); }},
    {"cuMemGetAddressRange: without a context", "call/call.cc", kContext,
     [] {
       Block b;
       return With(nullptr, [&] { return cuMemGetAddressRange(Out<CUdeviceptr>(), Out<size_t>(), b); });
     }},
    {"cuMemAllocPitch: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuMemAllocPitch(Out<CUdeviceptr>(), Out<size_t>(), 64, 2, 4); }); }},
    {"cuMemAllocManaged: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuMemAllocManaged(Out<CUdeviceptr>(), 64, CU_MEM_ATTACH_GLOBAL); }); }},
    {"cuMemFree of managed memory: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUdeviceptr p;
       CHECK_DRIVER(cuMemAllocManaged(&p, 64, CU_MEM_ATTACH_GLOBAL));
       return With(nullptr, [&] { return cuMemFree(p); });
     }},
    {"cuMemFree of pool memory: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUdeviceptr p;
       CHECK_DRIVER(cuMemAllocAsync(&p, 64, nullptr));
       return With(nullptr, [&] { return cuMemFree(p); });
     }},
    {"cuMemFree of a second time: without a context", "call/call.cc", kInvalid,
     [] {
       const CUdeviceptr p = Gone<Block>();
       return With(nullptr, [&] { return cuMemFree(p); });
     }},
    {"cuMemcpyDtoDAsync: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Block b;
       Stream s;
       return With(nullptr, [&] { return cuMemcpyDtoDAsync(b, b + 64, 16, s); });
     }},
    {"cuMemcpyHtoD: without a context", "call/call.cc", kContext,
     [] {
       Block b;
       char host[16];
       return With(nullptr, [&] { return cuMemcpyHtoD(b, host, 16); });
     }},
    {"cuMemcpy2DAsync: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Block b;
       Stream s;
       CUDA_MEMCPY2D c{};
       c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
       c.srcDevice = b;
       c.dstDevice = b + 1024;
       c.WidthInBytes = 16;
       c.Height = 1;
       return With(nullptr, [&] { return cuMemcpy2DAsync(&c, s); });
     }},
    {"cuMemsetD8Async: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Block b;
       Stream s;
       return With(nullptr, [&] { return cuMemsetD8Async(b, 0, 16, s); });
     }},
    {"cuMemsetD8: without a context", "call/call.cc", kContext,
     [] {
       Block b;
       return With(nullptr, [&] { return cuMemsetD8(b, 0, 16); });
     }},
    {"cuLaunchKernel: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Module m;
       Stream s;
       const CUfunction f = m["Nothing"];
       return With(nullptr, [&] { return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr); });
     }},
    {"cuLaunchHostFunc: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Stream s;
       return With(nullptr, [&] {
         return cuLaunchHostFunc(
             s, [](void*) {}, nullptr);
       });
     }},
    {"cuEventRecord: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Event e;
       Stream s;
       return With(nullptr, [&] { return cuEventRecord(e, s); });
     }},
    {"cuEventQuery: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Event e;
       return With(nullptr, [&] { return cuEventQuery(e); });
     }},
    {"cuEventSynchronize: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Event e;
       return With(nullptr, [&] { return cuEventSynchronize(e); });
     }},
    {"cuEventDestroy: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUevent e;
       CHECK_DRIVER(cuEventCreate(&e, 0));
       return With(nullptr, [&] { return cuEventDestroy(e); });
     }},
    {"cuEventElapsedTime: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Event e;
       CHECK_DRIVER(cuEventRecord(e, nullptr));
       CHECK_DRIVER(cuEventSynchronize(e));
       return With(nullptr, [&] { return cuEventElapsedTime(Out<float>(), e, e); });
     }},
    {"cuStreamCreate: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuStreamCreate(Out<CUstream>(), 0); }); }},
    {"cuStreamDestroy: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUstream s;
       CHECK_DRIVER(cuStreamCreate(&s, 0));
       return With(nullptr, [&] { return cuStreamDestroy(s); });
     }},
    {"cuStreamQuery: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Stream s;
       return With(nullptr, [&] { return cuStreamQuery(s); });
     }},
    {"cuStreamWaitEvent: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Event e;
       Stream s;
       return With(nullptr, [&] { return cuStreamWaitEvent(s, e, 0); });
     }},
    {"cuStreamGetCtx: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Stream s;
       return With(nullptr, [&] { return cuStreamGetCtx(s, Out<CUcontext>()); });
     }},
    {"cuStreamGetPriority: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Stream s;
       return With(nullptr, [&] { return cuStreamGetPriority(s, Out<int>()); });
     }},
    {"cuStreamBeginCapture: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Stream s;
       return With(nullptr, [&] { return cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED); });
     }},
    {"cuStreamIsCapturing: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Stream s;
       return With(nullptr, [&] { return cuStreamIsCapturing(s, Out<CUstreamCaptureStatus>()); });
     }},
    {"cuStreamWriteValue32: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Block b;
       Stream s;
       return With(nullptr, [&] { return cuStreamWriteValue32(s, b, 1, 0); });
     }},
    {"cuModuleGetFunction: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Module m;
       return With(nullptr, [&] { return cuModuleGetFunction(Out<CUfunction>(), m, "Nothing"); });
     }},
    {"cuModuleGetGlobal: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Module m;
       return With(nullptr, [&] { return cuModuleGetGlobal(Out<CUdeviceptr>(), Out<size_t>(), m, "variable"); });
     }},
    {"cuModuleUnload: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUmodule m;
       CHECK_DRIVER(cuModuleLoadData(&m, kPtx));
       return With(nullptr, [&] { return cuModuleUnload(m); });
     }},
    {"cuFuncGetAttribute: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Module m;
       const CUfunction f = m["Nothing"];
       return With(nullptr, [&] { return cuFuncGetAttribute(Out<int>(), CU_FUNC_ATTRIBUTE_NUM_REGS, f); });
     }},
    {"cuFuncGetName: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Module m;
       const CUfunction f = m["Nothing"];
       return With(nullptr, [&] { return cuFuncGetName(Out<const char*>(), f); });
     }},
    {"cuFuncSetCacheConfig: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Module m;
       const CUfunction f = m["Nothing"];
       return With(nullptr, [&] { return cuFuncSetCacheConfig(f, CU_FUNC_CACHE_PREFER_NONE); });
     }},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor: without a context", "call/call.cc", kContext,
     [] {
       Module m;
       const CUfunction f = m["Nothing"];
       return With(nullptr, [&] { return cuOccupancyMaxActiveBlocksPerMultiprocessor(Out<int>(), f, 32, 0); });
     }},
    {"cuLibraryLoadData: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       return With(nullptr, [&] { return cuLibraryLoadData(Out<CUlibrary>(), kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0); });
     }},
    {"cuKernelGetFunction: without a context", "call/call.cc", kContext,
     [] {
       Library l;
       const CUkernel k = l["Nothing"];
       return With(nullptr, [&] { return cuKernelGetFunction(Out<CUfunction>(), k); });
     }},
    {"cuKernelGetAttribute: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Library l;
       const CUkernel k = l["Nothing"];
       return With(nullptr, [&] { return cuKernelGetAttribute(Out<int>(), CU_FUNC_ATTRIBUTE_NUM_REGS, k, 0); });
     }},
    {"cuLibraryGetGlobal: without a context", "call/call.cc", kContext,
     [] {
       Library l;
       return With(nullptr, [&] { return cuLibraryGetGlobal(Out<CUdeviceptr>(), Out<size_t>(), l, "variable"); });
     }},
    {"cuLibraryUnload: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUlibrary l;
       CHECK_DRIVER(cuLibraryLoadData(&l, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
       return With(nullptr, [&] { return cuLibraryUnload(l); });
     }},
    {"cuLinkCreate: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuLinkCreate(0, nullptr, nullptr, Out<CUlinkState>()); }); }},
    {"cuArrayCreate: without a context", "call/call.cc", kContext,
     [] {
       const CUDA_ARRAY_DESCRIPTOR d{64, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1};
       return With(nullptr, [&] { return cuArrayCreate(Out<CUarray>(), &d); });
     }},
    {"cuArrayGetDescriptor: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Array a;
       return With(nullptr, [&] { return cuArrayGetDescriptor(Out<CUDA_ARRAY_DESCRIPTOR>(), a); });
     }},
    {"cuArrayDestroy: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUarray a;
       const CUDA_ARRAY_DESCRIPTOR d{64, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1};
       CHECK_DRIVER(cuArrayCreate(&a, &d));
       return With(nullptr, [&] { return cuArrayDestroy(a); });
     }},
    {"cuMemAllocAsync: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Stream s;
       return With(nullptr, [&] { return cuMemAllocAsync(Out<CUdeviceptr>(), 64, s); });
     }},
    {"cuMemFreeAsync: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUdeviceptr p;
       CHECK_DRIVER(cuMemAllocAsync(&p, 64, nullptr));
       Stream s;
       return With(nullptr, [&] { return cuMemFreeAsync(p, s); });
     }},
    {"cuMemPoolTrimTo: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUmemoryPool p;
       CHECK_DRIVER(cuDeviceGetDefaultMemPool(&p, 0));
       return With(nullptr, [&] { return cuMemPoolTrimTo(p, 0); });
     }},
    {"cuDeviceGetDefaultMemPool: without a context", "call/call.cc", CUDA_SUCCESS,
     [] { return With(nullptr, [&] { return cuDeviceGetDefaultMemPool(Out<CUmemoryPool>(), 0); }); }},
    {"cuMemCreate: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       const CUmemAllocationProp p = OnDevice();
       return With(nullptr, [&] { return cuMemCreate(Out<CUmemGenericAllocationHandle>(), kMapped, &p, 0); });
     }},
    {"cuMemAddressReserve: without a context", "call/call.cc", CUDA_SUCCESS,
     [] { return With(nullptr, [&] { return cuMemAddressReserve(Out<CUdeviceptr>(), kMapped, 0, 0, 0); }); }},
    {"cuMemAddressFree: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUdeviceptr p;
       CHECK_DRIVER(cuMemAddressReserve(&p, kMapped, 0, 0, 0));
       return With(nullptr, [&] { return cuMemAddressFree(p, kMapped); });
     }},
    {"cuMemMap: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Reserved r;
       Physical p;
       return With(nullptr, [&] { return cuMemMap(r, kMapped, 0, p, 0); });
     }},
    {"cuMemUnmap: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Reserved r;
       Physical p;
       CHECK_DRIVER(cuMemMap(r, kMapped, 0, p, 0));
       return With(nullptr, [&] { return cuMemUnmap(r, kMapped); });
     }},
    {"cuMemSetAccess: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Mapped m;
       const CUmemAccessDesc a{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
       return With(nullptr, [&] { return cuMemSetAccess(m, kMapped, &a, 1); });
     }},
    {"cuMemRelease: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUmemGenericAllocationHandle h;
       const CUmemAllocationProp p = OnDevice();
       CHECK_DRIVER(cuMemCreate(&h, kMapped, &p, 0));
       return With(nullptr, [&] { return cuMemRelease(h); });
     }},
    {"cuMemAdvise: without a context", "call/call.cc", kContext,
     [] {
       Managed m;
       return With(nullptr, [&] {
         return cuMemAdvise(m, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, {CU_MEM_LOCATION_TYPE_DEVICE, 0});
       });
     }},
    {"cuMemPrefetchAsync: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Managed m;
       Stream s;
       return With(nullptr, [&] { return cuMemPrefetchAsync(m, 4096, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, s); });
     }},
    {"cuMemRangeGetAttribute: without a context", "call/call.cc", kContext,
     [] {
       Managed m;
       return With(nullptr, [&] { return cuMemRangeGetAttribute(Out<int>(), 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, m, 4096); });
     }},
    {"cuStreamAttachMemAsync: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Managed m;
       Stream s;
       return With(nullptr, [&] { return cuStreamAttachMemAsync(s, m, 0, CU_MEM_ATTACH_GLOBAL); });
     }},
    {"cuPointerSetAttribute: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Block b;
       const unsigned on = 1;
       return With(nullptr, [&] { return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, b); });
     }},
    {"cuIpcGetMemHandle: without a context", "call/call.cc", kContext,
     [] {
       Block b;
       return With(nullptr, [&] { return cuIpcGetMemHandle(Out<CUipcMemHandle>(), b); });
     }},
    {"cuGraphInstantiate: without a context", "call/call.cc", kContext,
     [] {
       Graph g;
       g.Empty();
       return With(nullptr, [&] { return cuGraphInstantiate(Out<CUgraphExec>(), g, 0); });
     }},
    {"cuGraphAddKernelNode: without a context", "call/call.cc", kContext,
     [] {
       Module m;
       Graph g;
       CUDA_KERNEL_NODE_PARAMS p{};
       p.func = m["Nothing"];
       p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
       return With(nullptr, [&] { return cuGraphAddKernelNode(Out<CUgraphNode>(), g, nullptr, 0, &p); });
     },
     kDangerous},
    {"cuGraphAddEmptyNode: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Graph g;
       return With(nullptr, [&] { return cuGraphAddEmptyNode(Out<CUgraphNode>(), g, nullptr, 0); });
     }},
    {"cuGraphLaunch: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Graph g;
       g.Empty();
       Exec e(g);
       Stream s;
       return With(nullptr, [&] { return cuGraphLaunch(e, s); });
     }},
    {"cuGraphUpload: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Graph g;
       g.Empty();
       Exec e(g);
       Stream s;
       return With(nullptr, [&] { return cuGraphUpload(e, s); });
     }},
    {"cuGraphExecDestroy: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUgraphExec e;
       {
         Graph g;
         g.Empty();
         e = g.Instantiate();
       }
       return With(nullptr, [&] { return cuGraphExecDestroy(e); });
     }},
    {"cuGraphDestroy: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUgraph g;
       CHECK_DRIVER(cuGraphCreate(&g, 0));
       return With(nullptr, [&] { return cuGraphDestroy(g); });
     }},
    {"cuUserObjectCreate: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       return With(nullptr, [&] {
         return cuUserObjectCreate(
             Out<CUuserObject>(), nullptr, [](void*) {}, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
       });
     }},
    {"cuCtxGetLimit: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuCtxGetLimit(Out<size_t>(), CU_LIMIT_STACK_SIZE); }); }},
    {"cuCtxGetFlags: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuCtxGetFlags(Out<unsigned>()); }); }},
    {"cuCtxGetApiVersion: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuCtxGetApiVersion(nullptr, Out<unsigned>()); }); }},
    {"cuCtxGetId: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuCtxGetId(nullptr, Out<unsigned long long>()); }); }},
    {"cuCtxGetStreamPriorityRange: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuCtxGetStreamPriorityRange(Out<int>(), Out<int>()); }); }},
    {"cuCtxEnablePeerAccess: without a context", "call/call.cc", kContext,
     [] {
       OtherContext other;
       return With(nullptr, [&] { return cuCtxEnablePeerAccess(other, 0); });
     }},
    {"cuCtxResetPersistingL2Cache: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuCtxResetPersistingL2Cache(); }); }},
    {"cuProfilerStart: without a context", "call/call.cc", kContext,
     [] { return With(nullptr, [&] { return cuProfilerStart(); }); }},
    {"cuTexObjectCreate: without a context", "call/call.cc", kContext,
     [] {
       Block b;
       CUDA_RESOURCE_DESC r{};
       r.resType = CU_RESOURCE_TYPE_LINEAR;
       r.res.linear = {b, CU_AD_FORMAT_UNSIGNED_INT8, 1, 64};
       CUDA_TEXTURE_DESC t{};
       return With(nullptr, [&] { return cuTexObjectCreate(Out<CUtexObject>(), &r, &t, nullptr); });
     }},
    {"cuThreadExchangeStreamCaptureMode: without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
       return With(nullptr, [&] { return cuThreadExchangeStreamCaptureMode(&mode); });
     }},
    {"cuMemFree: destroyed context", "call/call.cc", kDestroyed,
     [] {
       CUdeviceptr b;
       CHECK_DRIVER(cuMemAlloc(&b, 64));
       return InDestroyed([&] { return cuMemFree(b); });
     }},
    {"cuMemGetInfo: destroyed context", "call/call.cc", kDestroyed,
     [] { return InDestroyed([&] { return cuMemGetInfo(Out<size_t>(), Out<size_t>()); }); }},
    {"cuStreamCreate: destroyed context", "call/call.cc", kDestroyed,
     [] { return InDestroyed([&] { return cuStreamCreate(Out<CUstream>(), 0); }); }},
    {"cuEventRecord: destroyed context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Event e;
       Stream s;
       return InDestroyed([&] { return cuEventRecord(e, s); });
     }},
    {"cuStreamQuery: destroyed context", "call/call.cc", kDestroyed,
     [] { return InDestroyed([&] { return cuStreamQuery(nullptr); }); }},
    {"cuMemsetD8Async: destroyed context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Block b;
       Stream s;
       return InDestroyed([&] { return cuMemsetD8Async(b, 0, 16, s); });
     }},
    {"cuPointerGetAttribute: destroyed context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Block b;
       return InDestroyed([&] { return cuPointerGetAttribute(Out<unsigned>(), CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b); });
     }},
    {"cuCtxGetDevice: destroyed context", "call/call.cc", CUDA_SUCCESS,
     [] { return InDestroyed([&] { return cuCtxGetDevice(Out<CUdevice>()); }); }},
    {"cuCtxGetCurrent: destroyed context", "call/call.cc", CUDA_SUCCESS,
     [] { return InDestroyed([&] { return cuCtxGetCurrent(Out<CUcontext>()); }); }},
    {"cuStreamGetDevice: destroyed context", "call/call.cc", kDestroyed,
     [] { return InDestroyed([&] { return cuStreamGetDevice(nullptr, Out<CUdevice>()); }); }},
    {"cuLaunchKernel: destroyed context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Module m;
       Stream s;
       const CUfunction f = m["Nothing"];
       return InDestroyed([&] { return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr); });
     }},
    {"cuModuleUnload: destroyed context", "call/call.cc", CUDA_SUCCESS,
     [] {
       CUmodule m;
       CHECK_DRIVER(cuModuleLoadData(&m, kPtx));
       return InDestroyed([&] { return cuModuleUnload(m); });
     }},
    {"cuCtxAttach: without a context", "calls/context.cc", kContext,
     [] {
       return With(nullptr, [] {
         CUcontext c;
         return cuCtxAttach(&c, 0);
       });
     }},
    {"cuCtxGetDevice: without a context", "calls/context.cc", kContext,
     [] {
       return With(nullptr, [] {
         CUdevice d;
         return cuCtxGetDevice(&d);
       });
     }},
};

}  // namespace

std::span<const Row> WithoutContextRows() { return kRows; }

}  // namespace refusals
