// What a capture forbids: calls that may not be made while any goes on, and uses of captured streams and events.
#include <thread>

#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kUnsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
constexpr CUresult kInvalidated = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
constexpr CUresult kImplicit = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;

CUresult Status(CUstream stream) {
  CUstreamCaptureStatus status;
  return cuStreamIsCapturing(stream, &status);
}

const CUDA_ARRAY3D_DESCRIPTOR kDeep{64, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};

CUDA_RESOURCE_DESC Linear(CUdeviceptr address) {
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear = {address, CU_AD_FORMAT_UNSIGNED_INT8, 1, 64};
  return resource;
}

CUDA_RESOURCE_DESC Of(CUarray array) {
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  return resource;
}

const Row kRows[] = {
    // Allocation and the like, forbidden while a capture of mode "global" goes on anywhere (capture = "unsafe" in
    // protocol/spec).
    {"cuMemAlloc: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       return cuMemAlloc(Out<CUdeviceptr>(), 64);
     }},
    {"cuMemAllocPitch: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       return cuMemAllocPitch(Out<CUdeviceptr>(), Out<size_t>(), 64, 2, 4);
     }},
    {"cuMemFree: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Block b;
       Capture c;
       return cuMemFree(b);
     }},
    {"cuMemAllocHost: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       void* p;
       return cuMemAllocHost(&p, 64);
     }},
    {"cuMemHostAlloc: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       void* p;
       return cuMemHostAlloc(&p, 64, 0);
     }},
    {"cuMemFreeHost: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Pinned p;
       Capture c;
       return cuMemFreeHost(p);
     }},
    {"cuMemHostRegister: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Pages p;
       Capture c;
       return cuMemHostRegister(p, 4096, 0);
     }},
    {"cuMemHostUnregister: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Registered r;
       Capture c;
       return cuMemHostUnregister(r);
     }},
    {"cuMemAllocManaged: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       return cuMemAllocManaged(Out<CUdeviceptr>(), 64, CU_MEM_ATTACH_GLOBAL);
     }},
    {"cuPointerSetAttribute: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Block b;
       Capture c;
       const unsigned on = 1;
       return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, b);
     }},
    {"cuCtxSetLimit: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);
     }},
    {"cuCtxSetCacheConfig: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       return cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE);
     }},
    {"cuCtxSetSharedMemConfig: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       return cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE);
     }},
    {"cuGraphInstantiate: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Graph g;
       Capture c;
       return cuGraphInstantiate(Out<CUgraphExec>(), g, 0);
     }},
    {"cuGraphInstantiateWithParams: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Graph g;
       Capture c;
       CUgraphExec e;
       CUDA_GRAPH_INSTANTIATE_PARAMS params{};
       return cuGraphInstantiateWithParams(&e, g, &params);
     }},
    {"cuGraphExecDestroy: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Graph g;
       Exec e(g);
       Capture c;
       return cuGraphExecDestroy(e);
     }},
    {"cuModuleUnload: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Module m;
       Capture c;
       return cuModuleUnload(m);
     }},
    {"cuLibraryUnload: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Library l;
       Capture c;
       return cuLibraryUnload(l);
     }},
    {"cuMemPoolTrimTo: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       return cuMemPoolTrimTo(DefaultPool(), 0);
     }},
    {"cuMemPoolSetAttribute: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       cuuint64_t none = 0;
       return cuMemPoolSetAttribute(DefaultPool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none);
     }},
    {"cuMemPoolGetAttribute: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       cuuint64_t none = 0;
       return cuMemPoolGetAttribute(DefaultPool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none);
     }},
    {"cuMemPoolCreate: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       CUmemoryPool pool;
       const CUmemPoolProps props = PinnedPoolProps();
       return cuMemPoolCreate(&pool, &props);
     }},
    {"cuMemPoolDestroy: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       CUmemoryPool pool;
       const CUmemPoolProps props = PinnedPoolProps();
       CHECK_DRIVER(cuMemPoolCreate(&pool, &props));
       CUresult result;
       {
         Capture c;
         result = cuMemPoolDestroy(pool);
       }
       cuMemPoolDestroy(pool);
       return result;
     }},
    {"cuArrayCreate: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       return cuArrayCreate(Out<CUarray>(), &kFlat);
     }},
    {"cuArrayDestroy: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Array a;
       Capture c;
       return cuArrayDestroy(a);
     }},
    {"cuArray3DCreate: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       return cuArray3DCreate(Out<CUarray>(), &kDeep);
     }},
    {"cuMipmappedArrayCreate: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Capture c;
       return cuMipmappedArrayCreate(Out<CUmipmappedArray>(), &kDeep, 1);
     }},
    {"cuMipmappedArrayDestroy: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       CUmipmappedArray a;
       CHECK_DRIVER(cuMipmappedArrayCreate(&a, &kDeep, 1));
       CUresult result;
       {
         Capture c;
         result = cuMipmappedArrayDestroy(a);
       }
       cuMipmappedArrayDestroy(a);
       return result;
     },
     kNeedsGpu},
    {"cuTexObjectCreate: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Block b;
       Capture c;
       const auto r = Linear(b);
       CUDA_TEXTURE_DESC t{};
       CUtexObject o;
       return cuTexObjectCreate(&o, &r, &t, nullptr);
     }},
    {"cuTexObjectDestroy: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       Block b;
       const auto r = Linear(b);
       CUDA_TEXTURE_DESC t{};
       CUtexObject o;
       CHECK_DRIVER(cuTexObjectCreate(&o, &r, &t, nullptr));
       CUresult result;
       {
         Capture c;
         result = cuTexObjectDestroy(o);
       }
       cuTexObjectDestroy(o);
       return result;
     }},
    {"cuSurfObjectCreate: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       CUarray a;
       CUDA_ARRAY3D_DESCRIPTOR d = kDeep;
       d.Flags = CUDA_ARRAY3D_SURFACE_LDST;
       CHECK_DRIVER(cuArray3DCreate(&a, &d));
       CUresult result;
       {
         Capture c;
         const auto r = Of(a);
         CUsurfObject o;
         result = cuSurfObjectCreate(&o, &r);
       }
       cuArrayDestroy(a);
       return result;
     }},
    {"cuSurfObjectDestroy: while captured", "streams/capture_check.cc", kUnsupported,
     [] {
       CUarray a;
       CUDA_ARRAY3D_DESCRIPTOR d = kDeep;
       d.Flags = CUDA_ARRAY3D_SURFACE_LDST;
       CHECK_DRIVER(cuArray3DCreate(&a, &d));
       const auto r = Of(a);
       CUsurfObject o;
       CHECK_DRIVER(cuSurfObjectCreate(&o, &r));
       CUresult result;
       {
         Capture c;
         result = cuSurfObjectDestroy(o);
       }
       cuSurfObjectDestroy(o);
       cuArrayDestroy(a);
       return result;
     }},
    {"cuMemAlloc: ends a capture", "streams/capture.cc", kInvalidated,
     [] {
       Capture c;
       CUdeviceptr p;
       cuMemAlloc(&p, 64);
       return End(c);
     }},
    {"cuMemAlloc: thread of mode relaxed", "streams/capture.cc", CUDA_SUCCESS,
     [] {
       Capture c;
       CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
       CHECK_DRIVER(cuThreadExchangeStreamCaptureMode(&mode));
       CUdeviceptr p;
       const CUresult result = cuMemAlloc(&p, 64);
       CHECK_DRIVER(cuThreadExchangeStreamCaptureMode(&mode));
       cuMemFree(p);
       return result;
     }},
    {"cuMemAlloc: capture of mode relaxed", "streams/capture.cc", CUDA_SUCCESS,
     [] {
       Capture c(CU_STREAM_CAPTURE_MODE_RELAXED);
       CUdeviceptr p;
       const CUresult result = cuMemAlloc(&p, 64);
       cuMemFree(p);
       return result;
     }},
    {"cuMemAlloc: capture of mode thread-local in another thread", "streams/capture.cc", CUDA_SUCCESS,
     [] {
       Capture c(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
       const CUcontext mine = Current();
       CUresult result;
       std::thread([&] {
         CHECK_DRIVER(cuCtxSetCurrent(mine));
         CUdeviceptr p;
         result = cuMemAlloc(&p, 64);
         if (result == CUDA_SUCCESS) cuMemFree(p);
       }).join();
       return result;
     }},
    {"cuMemAlloc: capture of mode global in another thread", "streams/capture.cc", kUnsupported,
     [] {
       Capture c;
       const CUcontext mine = Current();
       CUresult result;
       std::thread([&] {
         CHECK_DRIVER(cuCtxSetCurrent(mine));
         CUdeviceptr p;
         result = cuMemAlloc(&p, 64);
       }).join();
       return result;
     }},

    // Uses of captured streams.
    {"cuStreamSynchronize: captured stream", "calls/stream.cc", kUnsupported,
     [] {
       Capture c;
       return cuStreamSynchronize(c);
     }},
    {"cuStreamSynchronize: another stream, while captured", "streams/capture.cc", kUnsupported,
     [] {
       Capture c;
       return cuStreamSynchronize(Stream());
     }},
    {"cuStreamQuery: captured stream", "calls/stream.cc", kUnsupported,
     [] {
       Capture c;
       return cuStreamQuery(c);
     }},
    {"cuCtxSynchronize: while captured", "calls/context.cc", kUnsupported,
     [] {
       Capture c;
       return cuCtxSynchronize();
     }},
    {"cuCtxSynchronize: stream of mode relaxed", "calls/context.cc", kUnsupported,
     [] {
       Capture c(CU_STREAM_CAPTURE_MODE_RELAXED);
       return cuCtxSynchronize();
     }},
    {"cuCtxSynchronize_v2: the current context, captured", "calls/context.cc", kUnsupported,
     [] {
       Capture c;
       return cuCtxSynchronize_v2(Current());
     }},
    {"cuCtxSynchronize_v2: another context, captured", "calls/context.cc", kUnsupported,
     [] {
       OtherContext other;
       const CUstream s = StreamOf(other);
       CHECK_DRIVER(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
       const CUresult result = cuCtxSynchronize_v2(other);
       End(s);
       return result;
     }},
    {"cuCtxSynchronize: captured in another context", "calls/context.cc", CUDA_SUCCESS,
     [] {
       Capture c;
       OtherContext other;
       return other.In([] { return cuCtxSynchronize(); });
     }},
    {"cuStreamEndCapture: after cuCtxSynchronize of another context", "calls/context.cc", CUDA_SUCCESS,
     [] {
       Capture c;
       OtherContext other;
       other.In([] { return cuCtxSynchronize(); });
       return End(c);
     }},
    {"cuCtxSynchronize: in another thread, mode global", "calls/context.cc", kUnsupported,
     [] {
       Capture c;
       const CUcontext mine = Current();
       CUresult result;
       std::thread([&] {
         CHECK_DRIVER(cuCtxSetCurrent(mine));
         result = cuCtxSynchronize();
       }).join();
       return result;
     }},
    {"cuCtxSynchronize: context captured in another thread, mode thread-local", "calls/context.cc", kUnsupported,
     [] {
       Capture c(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
       const CUcontext mine = Current();
       CUresult result;
       std::thread([&] {
         CHECK_DRIVER(cuCtxSetCurrent(mine));
         result = cuCtxSynchronize();
       }).join();
       return result;
     }},
    {"cuCtxWaitEvent: captured event of a captured stream of the context", "calls/context_event.cc", kUnsupported,
     [] {
       Capture c;
       Event e;
       CHECK_DRIVER(cuEventRecord(e, c));
       return cuCtxWaitEvent(Current(), e);
     }},
    {"cuLaunchKernel: captured stream, function of another context", "calls/launch.cc", CUDA_ERROR_INVALID_HANDLE,
     [] {
       OtherContext other;
       const CUfunction f = FunctionOf(other);
       Capture c;
       return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, c, nullptr, nullptr);
     }},
    {"cuStreamWriteValue32: captured stream, freed memory", "memory/memory_operations.cc", CUDA_SUCCESS,
     [] {
       const CUdeviceptr gone = Gone<Block>();
       Capture c;
       return cuStreamWriteValue32(c, gone, 1, 0);
     }},
    {"cuStreamWriteValue32: captured stream", "memory/memory_operations.cc", CUDA_SUCCESS,
     [] {
       Block b;
       Capture c;
       return cuStreamWriteValue32(c, b, 1, 0);
     }},
    {"cuCtxRecordEvent: captured stream of the context", "calls/context_event.cc", kUnsupported,
     [] {
       Capture c;
       Event e;
       const CUcontext mine = Current();
       return cuCtxRecordEvent(mine, e);
     }},
    {"cuCtxWaitEvent: captured stream of the context", "calls/context_event.cc", kUnsupported,
     [] {
       Capture c;
       Event e;
       const CUcontext mine = Current();
       return cuCtxWaitEvent(mine, e);
     }},
    {"cuCtxWaitEvent: captured event", "calls/context_event.cc", CUDA_ERROR_CAPTURED_EVENT,
     [] {
       Capture c;
       Event e;
       CHECK_DRIVER(cuEventRecord(e, c));
       return cuCtxWaitEvent(OtherContext(), e);
     }},
    {"cuCtxRecordEvent: event of another context", "calls/context_event.cc", CUDA_ERROR_INVALID_HANDLE,
     [] { return cuCtxRecordEvent(OtherContext(), Event()); }},
    {"cuStreamGetFlags: captured stream", "calls/stream.cc", kUnsupported,
     [] {
       Capture c;
       return cuStreamGetFlags(c, Out<unsigned>());
     }},
    {"cuStreamGetId: captured stream", "calls/stream.cc", kUnsupported,
     [] {
       Capture c;
       return cuStreamGetId(c, Out<unsigned long long>());
     }},
    {"cuStreamGetDevice: captured stream", "calls/stream.cc", kUnsupported,
     [] {
       Capture c;
       return cuStreamGetDevice(c, Out<CUdevice>());
     }},
    {"cuStreamGetPriority: captured stream", "calls/stream.cc", CUDA_SUCCESS,
     [] {
       Capture c;
       return cuStreamGetPriority(c, Out<int>());
     }},
    {"cuStreamGetCtx: captured stream", "calls/stream.cc", CUDA_SUCCESS,
     [] {
       Capture c;
       return cuStreamGetCtx(c, Out<CUcontext>());
     }},
    {"cuStreamAddCallback: captured stream", "calls/stream.cc", kUnsupported,
     [] {
       Capture c;
       return cuStreamAddCallback(
           c, [](CUstream, CUresult, void*) {}, nullptr, 0);
     }},
    {"cuStreamAttachMemAsync: captured stream", "calls/managed.cc", kUnsupported,
     [] {
       Managed m;
       Capture c;
       return cuStreamAttachMemAsync(c, m, 0, CU_MEM_ATTACH_GLOBAL);
     }},
    {"cuMemPrefetchAsync: captured stream", "calls/managed.cc", kUnsupported,
     [] {
       Managed m;
       Capture c;
       return cuMemPrefetchAsync(m, 4096, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0, c);
     }},
    {"cuMemcpyPeerAsync: captured stream", "calls/copy.cc", kUnsupported,
     [] {
       Block b;
       Capture c;
       const CUcontext mine = Current();
       return cuMemcpyPeerAsync(b, mine, b + 1024, mine, 64, c);
     }},
    {"cuGraphLaunch: captured stream", "calls/graph.cc", kUnsupported,
     [] {
       Graph g;
       g.Empty();
       Exec e(g);
       Capture c;
       return cuGraphLaunch(e, c);
     }},
    {"cuGraphUpload: captured stream", "calls/graph.cc", kUnsupported,
     [] {
       Graph g;
       g.Empty();
       Exec e(g);
       Capture c;
       return cuGraphUpload(e, c);
     }},
    {"cuMemcpyDtoH: while a blocking stream is captured", "streams/capture.cc", kImplicit,
     [] {
       Block b;
       char host[16];
       Capture c(CU_STREAM_CAPTURE_MODE_RELAXED, 0);
       return cuMemcpyDtoH(host, b, 16);
     }},
    {"cuMemsetD8: while a blocking stream is captured", "streams/capture.cc", kImplicit,
     [] {
       Block b;
       Capture c(CU_STREAM_CAPTURE_MODE_RELAXED, 0);
       return cuMemsetD8(b, 0, 16);
     }},
    {"cuMemsetD8: while a blocking stream is captured in another context", "streams/capture.cc", CUDA_SUCCESS,
     [] {
       Block b;
       Capture c(CU_STREAM_CAPTURE_MODE_RELAXED, 0);
       OtherContext other;
       return other.In([&] { return cuMemsetD8(b, 0, 16); });
     }},
    {"cuMemsetD8: while a non-blocking stream is captured", "streams/capture.cc", CUDA_SUCCESS,
     [] {
       Block b;
       Capture c(CU_STREAM_CAPTURE_MODE_RELAXED);
       return cuMemsetD8(b, 0, 16);
     }},
    {"cuMemcpyDtoD: while a stream is captured, mode global", "streams/capture.cc", CUDA_SUCCESS,
     [] {
       Block b;
       Capture c;
       return cuMemcpyDtoD(b, b + 1024, 16);
     }},
    {"cuMemcpyHtoD: while a stream is captured, mode global", "streams/capture.cc", CUDA_SUCCESS,
     [] {
       Block b;
       Capture c;
       char host[16];
       return cuMemcpyHtoD(b, host, 16);
     }},
    {"cuMemsetD8: while a stream is captured, mode global", "streams/capture.cc", CUDA_SUCCESS,
     [] {
       Block b;
       Capture c;
       return cuMemsetD8(b, 0, 16);
     }},
    {"cuStreamIsCapturing: the legacy stream, while a blocking stream is captured", "streams/capture.cc", kImplicit,
     [] {
       Capture c(CU_STREAM_CAPTURE_MODE_RELAXED, 0);
       return Status(nullptr);
     }},
    {"cuStreamIsCapturing: the legacy stream, while a non-blocking stream is captured", "streams/capture.cc", CUDA_SUCCESS,
     [] {
       Capture c;
       return Status(nullptr);
     }},
    {"cuMemsetD8Async: invalidated capture", "streams/capture.cc", kInvalidated,
     [] {
       Block b;
       Capture c;
       CUdeviceptr p;
       cuMemAlloc(&p, 64);
       return cuMemsetD8Async(b, 0, 16, c);
     }},
    {"cuMemAllocAsync: captured stream", "calls/pool.cc", CUDA_SUCCESS,
     [] {
       Capture c;
       return cuMemAllocAsync(Out<CUdeviceptr>(), 64, c);
     }},
    {"cuMemFreeAsync: block, captured stream", "calls/pool.cc", kInvalid,
     [] {
       Block b;
       Capture c;
       return cuMemFreeAsync(b, c);
     }},

    // Events.
    {"cuEventQuery: captured event", "streams/capture.cc", CUDA_ERROR_CAPTURED_EVENT,
     [] {
       Event e;
       Capture c;
       CHECK_DRIVER(cuEventRecord(e, c));
       return cuEventQuery(e);
     }},
    {"cuEventSynchronize: captured event", "streams/capture.cc", CUDA_ERROR_CAPTURED_EVENT,
     [] {
       Event e;
       Capture c;
       CHECK_DRIVER(cuEventRecord(e, c));
       return cuEventSynchronize(e);
     }},
    {"cuEventElapsedTime: captured event", "streams/capture.cc", CUDA_ERROR_CAPTURED_EVENT,
     [] {
       Event e;
       Capture c;
       CHECK_DRIVER(cuEventRecord(e, c));
       return cuEventElapsedTime(Out<float>(), e, e);
     }},
    {"cuEventQuery: another event, while captured", "streams/capture.cc", kUnsupported,
     [] {
       Event e;
       Capture c;
       return cuEventQuery(e);
     }},
    {"cuEventQuery: event of a capture that is over", "streams/capture.cc", kInvalid,
     [] {
       Event e;
       {
         Capture c;
         CHECK_DRIVER(cuEventRecord(e, c));
       }
       return cuEventQuery(e);
     }},
    {"cuEventElapsedTime: event of a capture that is over", "streams/capture.cc", kInvalid,
     [] {
       Event e;
       {
         Capture c;
         CHECK_DRIVER(cuEventRecord(e, c));
       }
       float ms;
       return cuEventElapsedTime(&ms, e, e);
     }},
    {"cuStreamWaitEvent: event of a capture that is over", "streams/capture.cc", kInvalid,
     [] {
       Event e;
       Stream s;
       {
         Capture c;
         CHECK_DRIVER(cuEventRecord(e, c));
       }
       return cuStreamWaitEvent(s, e, 0);
     }},
    {"cuStreamWaitEvent: captured stream, event recorded outside", "streams/capture.cc", CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
     [] {
       Event e;
       Stream s;
       CHECK_DRIVER(cuEventRecord(e, s));
       Capture c;
       return cuStreamWaitEvent(c, e, 0);
     }},
    {"cuStreamWaitEvent: captured stream, event never recorded", "streams/capture.cc", CUDA_SUCCESS,
     [] {
       Event e;
       Capture c;
       return cuStreamWaitEvent(c, e, 0);
     }},
    {"cuStreamWaitEvent: event of another capture", "streams/capture.cc", CUDA_ERROR_STREAM_CAPTURE_MERGE,
     [] {
       Event e;
       Capture a, b;
       CHECK_DRIVER(cuEventRecord(e, a));
       return cuStreamWaitEvent(b, e, 0);
     }},
    {"cuStreamWaitEvent: legacy stream, captured event", "streams/capture.cc", kImplicit,
     [] {
       Event e;
       Capture c;
       CHECK_DRIVER(cuEventRecord(e, c));
       return cuStreamWaitEvent(nullptr, e, 0);
     }},
    {"cuStreamWaitEvent: external, captured stream", "streams/capture.cc", CUDA_SUCCESS,
     [] {
       Event e;
       Capture c;
       return cuStreamWaitEvent(c, e, CU_EVENT_WAIT_EXTERNAL);
     }},

    // Begin and end.
    {"cuStreamBeginCapture: a second time", "streams/capture.cc", CUDA_ERROR_ILLEGAL_STATE,
     [] {
       Capture c;
       return cuStreamBeginCapture(c, CU_STREAM_CAPTURE_MODE_GLOBAL);
     }},
    {"cuStreamBeginCapture: the legacy stream", "streams/capture.cc", kUnsupported,
     [] { return cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL); }},
    {"cuStreamBeginCapture: the legacy stream, while a blocking stream is captured", "streams/capture.cc", kImplicit,
     [] {
       Capture c(CU_STREAM_CAPTURE_MODE_RELAXED, 0);
       return cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL);
     }},
    {"cuStreamBeginCapture: unknown mode", "streams/capture.cc", kInvalid,
     [] { return cuStreamBeginCapture(Stream(), static_cast<CUstreamCaptureMode>(5)); }},
    {"cuStreamBeginCaptureToGraph: node of another graph", "server", kInvalid,
     [] {
       Graph a, b;
       const CUgraphNode node = a.Empty();
       Stream s;
       const CUresult result = cuStreamBeginCaptureToGraph(s, b, &node, nullptr, 1, CU_STREAM_CAPTURE_MODE_RELAXED);
       CUgraph g;
       if (result == CUDA_SUCCESS) cuStreamEndCapture(s, &g);
       return result;
     }},
    {"cuStreamEndCapture: stream that is not captured", "streams/capture.cc", CUDA_ERROR_ILLEGAL_STATE,
     [] { return End(Stream()); }},
    {"cuStreamEndCapture: stream that is not captured, another is", "streams/capture.cc", CUDA_ERROR_ILLEGAL_STATE,
     [] {
       Capture c;
       return End(Stream());
     }},
    {"cuStreamEndCapture: the legacy stream, while a blocking stream is captured", "streams/capture.cc", kImplicit,
     [] {
       Capture c(CU_STREAM_CAPTURE_MODE_RELAXED, 0);
       return End(nullptr);
     }},
    {"cuStreamEndCapture: stream that joined", "streams/capture.cc", CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
     [] {
       Event e;
       Stream s;
       Capture c;
       CHECK_DRIVER(cuEventRecord(e, c));
       CHECK_DRIVER(cuStreamWaitEvent(s, e, 0));
       return End(s);
     }},
    {"cuStreamEndCapture: stream that joined and did not come back", "server", CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
     [] {
       Event e;
       Stream s;
       Capture c;
       Block* b = nullptr;
       (void)b;
       CHECK_DRIVER(cuEventRecord(e, c));
       CHECK_DRIVER(cuStreamWaitEvent(s, e, 0));
       CHECK_DRIVER(cuLaunchHostFunc(
           s, [](void*) {}, nullptr));
       return End(c);
     }},
    {"cuStreamEndCapture: another thread", "streams/capture.cc", CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
     [] {
       Capture c;
       const CUcontext mine = Current();
       CUresult result;
       std::thread([&] {
         CHECK_DRIVER(cuCtxSetCurrent(mine));
         result = End(c);
       }).join();
       return result;
     }},
    {"cuStreamEndCapture: another thread, mode relaxed", "streams/capture.cc", CUDA_SUCCESS,
     [] {
       Capture c(CU_STREAM_CAPTURE_MODE_RELAXED);
       const CUcontext mine = Current();
       CUresult result;
       std::thread([&] {
         CHECK_DRIVER(cuCtxSetCurrent(mine));
         result = End(c);
       }).join();
       return result;
     }},
    {"cuStreamUpdateCaptureDependencies: stream that is not captured", "calls/capture.cc", CUDA_ERROR_ILLEGAL_STATE,
     [] { return cuStreamUpdateCaptureDependencies(Stream(), nullptr, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES); }},
    {"cuStreamUpdateCaptureDependencies: unknown flags", "calls/capture.cc", kInvalid,
     [] {
       Capture c;
       return cuStreamUpdateCaptureDependencies(c, nullptr, nullptr, 0, 7);
     }},
    {"cuStreamGetCaptureInfo: dependencies without their edges, which are not plain", "calls/capture.cc", CUDA_ERROR_LOSSY_QUERY,
     [] {
       Module m;
       Capture c;
       CHECK_DRIVER(cuLaunchKernel(m["Nothing"], 1, 1, 1, 1, 1, 1, 0, c, nullptr, nullptr));
       CUstreamCaptureStatus status;
       const CUgraphNode* nodes = nullptr;
       const CUgraphEdgeData* edges = nullptr;
       size_t count = 0;
       CHECK_DRIVER(cuStreamGetCaptureInfo(c, &status, nullptr, nullptr, &nodes, &edges, &count));
       CUgraphNode node = nodes[0];
       CUgraphEdgeData edge{};
       edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
       edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
       CHECK_DRIVER(cuStreamUpdateCaptureDependencies(c, &node, &edge, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
       return cuStreamGetCaptureInfo(c, &status, nullptr, nullptr, &nodes, nullptr, &count);
     },
     kNeedsGpu},
    {"cuStreamUpdateCaptureDependencies: invalidated capture", "calls/capture.cc", kInvalidated,
     [] {
       Capture c;
       cuMemAlloc(Out<CUdeviceptr>(), 64);
       return cuStreamUpdateCaptureDependencies(c, nullptr, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
     }},
    {"cuStreamUpdateCaptureDependencies: node of another graph", "server", kInvalid,
     [] {
       Graph g;
       CUgraphNode node = g.Empty();
       Capture c;
       return cuStreamUpdateCaptureDependencies(c, &node, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
     }},
};

}  // namespace

std::span<const Row> CaptureRows() { return kRows; }

}  // namespace refusals
