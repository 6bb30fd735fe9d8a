// Contexts, green contexts, devices and peers.
#include <sys/wait.h>
#include <unistd.h>

#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
constexpr CUresult kContext = CUDA_ERROR_INVALID_CONTEXT;
constexpr CUresult kDestroyed = CUDA_ERROR_CONTEXT_IS_DESTROYED;

CUresult Allocate() {
  CUdeviceptr p;
  const CUresult result = cuMemAlloc(&p, 64);
  if (result == CUDA_SUCCESS) cuMemFree(p);
  return result;
}

CUresult Retain(CUdevice device) {
  CUcontext c;
  return cuDevicePrimaryCtxRetain(&c, device);
}

struct Green {
  explicit Green(unsigned flags = CU_GREEN_CTX_DEFAULT_STREAM) {
    CUdevResource resource;
    CUdevResourceDesc desc;
    CHECK_DRIVER(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
    CHECK_DRIVER(cuDevResourceGenerateDesc(&desc, &resource, 1));
    CHECK_DRIVER(cuGreenCtxCreate(&it, desc, 0, flags));
    CHECK_DRIVER(cuCtxFromGreenCtx(&context, it));
  }
  ~Green() {
    if (it != nullptr) cuGreenCtxDestroy(it);
  }
  CUgreenCtx it = nullptr;
  CUcontext context = nullptr;
};

// What `ask` answers in a child of this process.
template <typename Ask>
CUresult InChild(Ask ask) {
  const pid_t child = fork();
  if (child == 0) _exit(ask());
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? static_cast<CUresult>(WEXITSTATUS(status))
                                                                  : CUDA_ERROR_UNKNOWN;
}

const Row kRows[] = {
    {"cuDeviceGetCount: before cuInit", "call/call.cc", CUDA_ERROR_NOT_INITIALIZED, [] { return cuDeviceGetCount(Out<int>()); },
     kBeforeInit},
    {"cuMemAlloc: before cuInit", "call/call.cc", CUDA_ERROR_NOT_INITIALIZED, [] { return Allocate(); }, kBeforeInit},
    {"cuStreamSynchronize: before cuInit", "call/call.cc", CUDA_ERROR_NOT_INITIALIZED,
     [] { return cuStreamSynchronize(nullptr); }, kBeforeInit},
    {"cuImportExternalMemory: before cuInit", "call/call.cc", CUDA_ERROR_NOT_INITIALIZED,
     [] {
       CUexternalMemory m;
       CUDA_EXTERNAL_MEMORY_HANDLE_DESC d{};
       return cuImportExternalMemory(&m, &d);
     },
     kBeforeInit},
    {"cuStreamSynchronize: a stream, without a context", "call/call.cc", CUDA_SUCCESS,
     [] {
       Stream s;
       return With(nullptr, [&] { return cuStreamSynchronize(s); });
     }},

    {"cuCtxCreate: device that does not exist", "calls/context.cc", CUDA_ERROR_INVALID_DEVICE,
     [] { return cuCtxCreate(Out<CUcontext>(), nullptr, 0, 99); }},
    {"cuCtxCreate: unknown flags", "calls/context.cc", kInvalid,
     [] { return cuCtxCreate(Out<CUcontext>(), nullptr, 0x1000, 0); }},
    {"cuCtxCreate: two ways to wait", "session/context_flags.h", kInvalid,
     [] { return cuCtxCreate(Out<CUcontext>(), nullptr, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, 0); }},
    {"cuCtxCreate: affinity without MPS", "calls/context.cc", CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
     [] {
       CUexecAffinityParam affinity{};
       affinity.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
       affinity.param.smCount.val = 8;
       CUctxCreateParams params{};
       params.execAffinityParams = &affinity;
       params.numExecAffinityParams = 1;
       CUcontext c;
       return cuCtxCreate(&c, &params, 0, 0);
     }},
    {"cuCtxCreate: graphics", "calls/context.cc", CUDA_ERROR_NOT_SUPPORTED,
     [] {
       CUctxCigParam cig{};
       cig.sharedDataType = CIG_DATA_TYPE_D3D12_COMMAND_QUEUE;
       CUctxCreateParams params{};
       params.cigParams = &cig;
       CUcontext c;
       return cuCtxCreate(&c, &params, 0, 0);
     }},
    {"cuCtxDestroy: a primary context", "calls/context.cc", kContext, [] { return cuCtxDestroy(Current()); }},
    {"cuCtxDestroy: a second time", "calls/context.cc", kDestroyed, [] { return cuCtxDestroy(Gone<OtherContext>()); },
     kDangerous},
    {"cuCtxDestroy: a green context's", "calls/context.cc", kContext, [] { return cuCtxDestroy(Green().context); }},
    {"cuCtxSetCurrent: unknown context", "calls/context.cc", kContext, [] { return cuCtxSetCurrent(Unknown<CUcontext>()); },
     kDangerous},
    {"cuCtxSetCurrent: destroyed context", "calls/context.cc", CUDA_SUCCESS,
     [] {
       const CUcontext mine = Current(), gone = Gone<OtherContext>();
       const CUresult result = cuCtxSetCurrent(gone);
       CHECK_DRIVER(cuCtxSetCurrent(mine));
       return result;
     },
     kDangerous},
    {"cuCtxPushCurrent: destroyed context", "calls/context.cc", CUDA_SUCCESS,
     [] {
       const CUcontext gone = Gone<OtherContext>();
       const CUresult result = cuCtxPushCurrent(gone);
       CUcontext popped;
       if (result == CUDA_SUCCESS) cuCtxPopCurrent(&popped);
       return result;
     },
     kDangerous},
    {"cuCtxPushCurrent: null", "calls/context.cc", kInvalid, [] { return cuCtxPushCurrent(nullptr); }},
    {"cuCtxPopCurrent: nothing is current", "calls/context.cc", kContext,
     [] {
       CUcontext popped;
       const CUcontext mine = Current();
       CHECK_DRIVER(cuCtxPopCurrent(&popped));
       const CUresult result = cuCtxPopCurrent(&popped);
       CHECK_DRIVER(cuCtxPushCurrent(mine));
       return result;
     }},
    {"cuCtxDetach: context that is not current", "calls/context.cc", kContext, [] { return cuCtxDetach(OtherContext()); }},
    {"cuCtxGetId: destroyed context", "calls/context.cc", kDestroyed,
     [] { return cuCtxGetId(Gone<OtherContext>(), Out<unsigned long long>()); }},
    {"cuCtxGetApiVersion: destroyed context", "calls/context.cc", kContext,
     [] { return cuCtxGetApiVersion(Gone<OtherContext>(), Out<unsigned>()); }},
    {"cuMemAlloc: in a child of fork()", "call/call.cc", CUDA_ERROR_NOT_INITIALIZED, [] { return InChild(Allocate); }},
    {"cuInit: in a child of fork()", "session/client.cc", CUDA_ERROR_NOT_INITIALIZED,
     [] { return InChild([] { return cuInit(0); }); }},
    {"cuCtxCreate_v3: with a share of the multiprocessors", "calls/context.cc", CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
     [] {
       CUexecAffinityParam affinity{};
       affinity.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
       affinity.param.smCount.val = 8;
       void* create = nullptr;
       CUdriverProcAddressQueryResult found;
       CHECK_DRIVER(cuGetProcAddress("cuCtxCreate", &create, 11040, 0, &found));
       CUcontext context;
       return reinterpret_cast<CUresult (*)(CUcontext*, CUexecAffinityParam*, int, unsigned, CUdevice)>(create)(
           &context, &affinity, 1, 0, 0);
     }},
    {"cuCtxAttach: without a context", "calls/context.cc", kContext,
     [] { return With(nullptr, [] { return cuCtxAttach(Out<CUcontext>(), 0); }); }},
    {"cuCtxSynchronize_v2: destroyed context", "calls/context.cc", kDestroyed,
     [] { return cuCtxSynchronize_v2(Gone<OtherContext>()); }},
    {"cuCtxSetLimit: limit that cannot be set", "server", kInvalid, [] { return cuCtxSetLimit(static_cast<CUlimit>(0x50), 1); }},
    {"cuCtxSetFlags: unknown flags", "session/context_flags.h", kInvalid, [] { return cuCtxSetFlags(0x1000); }},
    {"cuCtxRecordEvent: destroyed context", "calls/context_event.cc", kDestroyed,
     [] { return cuCtxRecordEvent(Gone<OtherContext>(), Event()); }},
    {"cuCtxWaitEvent: null context", "calls/context_event.cc", kContext, [] { return cuCtxWaitEvent(nullptr, Event()); }},

    {"cuDevicePrimaryCtxRetain: device that does not exist", "calls/primary_context.cc", CUDA_ERROR_INVALID_DEVICE,
     [] { return Retain(99); }},
    {"cuDevicePrimaryCtxRelease: more often than retained", "calls/primary_context.cc", kContext,
     [] {
       CHECK_DRIVER(cuDevicePrimaryCtxRelease(0));
       return cuDevicePrimaryCtxRelease(0);
     },
     kOwnProcess},
    {"cuMemAlloc: primary context that was reset", "call/call.cc", kDestroyed,
     [] {
       CHECK_DRIVER(cuDevicePrimaryCtxReset(0));
       return Allocate();
     },
     kOwnProcess},
    {"cuStreamSynchronize: stream of a primary context that was reset", "call/call.cc", CUDA_ERROR_INVALID_HANDLE,
     [] {
       CUstream s;
       CHECK_DRIVER(cuStreamCreate(&s, 1));
       CHECK_DRIVER(cuDevicePrimaryCtxReset(0));
       CHECK_DRIVER(Retain(0));
       return cuStreamSynchronize(s);
     },
     kOwnProcess | kDangerous},
    {"cuDevicePrimaryCtxSetFlags: unknown flags", "calls/primary_context.cc", kInvalid,
     [] { return cuDevicePrimaryCtxSetFlags(0, 0x1000); }},
    {"cuDeviceGetAttribute: device that does not exist", "calls/device.cc", CUDA_ERROR_INVALID_DEVICE,
     [] { return cuDeviceGetAttribute(Out<int>(), CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99); }},
    {"cuDeviceGetAttribute: unknown attribute", "session/devices.cc", kInvalid,
     [] { return cuDeviceGetAttribute(Out<int>(), static_cast<CUdevice_attribute>(9999), 0); }},
    {"cuDeviceGet: device that does not exist", "calls/device.cc", CUDA_ERROR_INVALID_DEVICE,
     [] { return cuDeviceGet(Out<CUdevice>(), 99); }},
    {"cuDeviceGetByPCIBusId: device that does not exist", "calls/device.cc", CUDA_ERROR_INVALID_DEVICE,
     [] { return cuDeviceGetByPCIBusId(Out<CUdevice>(), "7fff:fe:1d.0"); }},
    {"cuDeviceRegisterAsyncNotification: device that does not exist", "calls/device.cc", CUDA_ERROR_INVALID_DEVICE,
     [] {
       CUasyncCallbackHandle h;
       return cuDeviceRegisterAsyncNotification(
           99, [](CUasyncNotificationInfo*, void*, CUasyncCallbackHandle) {}, nullptr, &h);
     }},
    {"cuDeviceUnregisterAsyncNotification: unknown callback", "call/call.cc", kInvalid,
     [] { return cuDeviceUnregisterAsyncNotification(0, Unknown<CUasyncCallbackHandle>()); }, kDangerous},

    {"cuDeviceCanAccessPeer: device that does not exist", "calls/peer.cc", CUDA_ERROR_INVALID_DEVICE,
     [] { return cuDeviceCanAccessPeer(Out<int>(), 0, 99); }},
    {"cuDeviceCanAccessPeer: of a device that does not exist", "calls/peer.cc", CUDA_ERROR_INVALID_DEVICE,
     [] { return cuDeviceCanAccessPeer(Out<int>(), 99, 0); }},
    {"cuDeviceGetP2PAttribute: device that does not exist", "calls/peer.cc", CUDA_ERROR_INVALID_DEVICE,
     [] { return cuDeviceGetP2PAttribute(Out<int>(), CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 99); }},
    {"cuDeviceGetP2PAttribute: of a device that does not exist", "calls/peer.cc", CUDA_ERROR_INVALID_DEVICE,
     [] { return cuDeviceGetP2PAttribute(Out<int>(), CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 99, 0); }},
    {"cuDeviceGetAttribute: attribute 0", "session/devices.cc", kInvalid,
     [] { return cuDeviceGetAttribute(Out<int>(), static_cast<CUdevice_attribute>(0), 0); }},
    {"cuDeviceCanAccessPeer: the device itself", "calls/peer.cc", CUDA_SUCCESS,
     [] { return cuDeviceCanAccessPeer(Out<int>(), 0, 0); }},
    {"cuDeviceGetP2PAttribute: the device itself", "calls/peer.cc", CUDA_ERROR_INVALID_DEVICE,
     [] { return cuDeviceGetP2PAttribute(Out<int>(), CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0); }},
    {"cuCtxEnablePeerAccess: the current context", "server", CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
     [] { return cuCtxEnablePeerAccess(Current(), 0); }},
    {"cuCtxEnablePeerAccess: another context of the device", "server", CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
     [] { return cuCtxEnablePeerAccess(OtherContext(), 0); }},
    {"cuCtxEnablePeerAccess: destroyed context", "calls/peer.cc", kDestroyed,
     [] { return cuCtxEnablePeerAccess(Gone<OtherContext>(), 0); }},
    {"cuCtxEnablePeerAccess: null", "calls/peer.cc", kContext, [] { return cuCtxEnablePeerAccess(nullptr, 0); }},
    {"cuCtxDisablePeerAccess: that is not enabled", "server", CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
     [] { return cuCtxDisablePeerAccess(OtherContext()); }},

    {"cuCtxFromGreenCtx: null", "calls/green.cc", kContext, [] { return cuCtxFromGreenCtx(Out<CUcontext>(), nullptr); }},
    {"cuCtxFromGreenCtx: destroyed", "calls/green.cc", kDestroyed,
     [] { return cuCtxFromGreenCtx(Out<CUcontext>(), Gone<Green>()); }, kDangerous},
    {"cuGreenCtxDestroy: a second time", "calls/green.cc", kDestroyed, [] { return cuGreenCtxDestroy(Gone<Green>()); },
     kDangerous},
    {"cuGreenCtxCreate: without its default stream", "calls/green.cc", kInvalid,
     [] {
       CUdevResource r;
       CUdevResourceDesc d;
       CHECK_DRIVER(cuDeviceGetDevResource(0, &r, CU_DEV_RESOURCE_TYPE_SM));
       CHECK_DRIVER(cuDevResourceGenerateDesc(&d, &r, 1));
       return cuGreenCtxCreate(Out<CUgreenCtx>(), d, 0, 0);
     }},
    {"cuGreenCtxCreate: device that does not exist", "calls/green.cc", CUDA_ERROR_INVALID_DEVICE,
     [] {
       CUdevResource r;
       CUdevResourceDesc d;
       CHECK_DRIVER(cuDeviceGetDevResource(0, &r, CU_DEV_RESOURCE_TYPE_SM));
       CHECK_DRIVER(cuDevResourceGenerateDesc(&d, &r, 1));
       return cuGreenCtxCreate(Out<CUgreenCtx>(), d, 99, CU_GREEN_CTX_DEFAULT_STREAM);
     }},
    {"cuGreenCtxStreamCreate: blocking stream", "calls/green.cc", kInvalid,
     [] { return cuGreenCtxStreamCreate(Out<CUstream>(), Green().it, 0, 0); }},
    {"cuGreenCtxGetId: current context that is not green", "calls/green.cc", kContext,
     [] { return cuGreenCtxGetId(nullptr, Out<unsigned long long>()); }},
    {"cuMemsetD8Async: stream of the thread in a green context", "streams/stream_state.cc", CUDA_ERROR_INVALID_HANDLE,
     [] {
       Green g;
       Block b;
       return With(g.context, [&] { return cuMemsetD8Async(b, 0, 16, CU_STREAM_PER_THREAD); });
     }},
    {"cuStreamGetFlags: stream of the thread in a green context", "streams/stream_state.cc", CUDA_ERROR_INVALID_HANDLE,
     [] {
       Green g;
       return With(g.context, [] {
         unsigned f;
         return cuStreamGetFlags(CU_STREAM_PER_THREAD, &f);
       });
     }},
    {"cuLaunchKernel: stream of the thread in a green context", "streams/stream_state.cc", CUDA_ERROR_INVALID_HANDLE,
     [] {
       Green g;
       Module m;
       const CUfunction f = m["Nothing"];
       return With(g.context, [&] { return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, nullptr, nullptr); });
     }},
    {"cuMemcpyAsync: stream of the thread in a green context", "streams/stream_state.cc", CUDA_ERROR_INVALID_HANDLE,
     [] {
       Green g;
       Block b;
       return With(g.context, [&] { return cuMemcpyAsync(b, b + 64, 16, CU_STREAM_PER_THREAD); });
     }},
    {"cuMemAllocAsync: stream of the thread in a green context", "streams/stream_state.cc", CUDA_ERROR_INVALID_HANDLE,
     [] {
       Green g;
       return With(g.context, [] { return cuMemAllocAsync(Out<CUdeviceptr>(), 64, CU_STREAM_PER_THREAD); });
     }},
    {"cuStreamSynchronize: stream of the thread in a green context", "streams/stream_state.cc", CUDA_ERROR_INVALID_HANDLE,
     [] {
       Green g;
       return With(g.context, [] { return cuStreamSynchronize(CU_STREAM_PER_THREAD); });
     }},
    {"cuLaunchKernel: function of the primary context, stream of its green one", "calls/launch.cc", CUDA_SUCCESS,
     [] {
       Green g;
       Module m;
       CUstream s;
       CHECK_DRIVER(cuGreenCtxStreamCreate(&s, g.it, CU_STREAM_NON_BLOCKING, 0));
       const CUresult result = cuLaunchKernel(m["Nothing"], 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr);
       cuStreamSynchronize(s);
       cuStreamDestroy(s);
       return result;
     }},
    {"cuLaunchKernel: function loaded in a green context, stream of the primary one", "calls/launch.cc", CUDA_SUCCESS,
     [] {
       Green g;
       CUfunction f;
       With(g.context, [&] {
         CUmodule m;
         CHECK_DRIVER(cuModuleLoadData(&m, kPtx));
         return cuModuleGetFunction(&f, m, "Nothing");
       });
       Stream s;
       const CUresult result = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr);
       cuStreamSynchronize(s);
       return result;
     }},
    {"cuStreamIsCapturing: stream of the thread in a green context", "streams/stream_state.cc", CUDA_ERROR_INVALID_HANDLE,
     [] {
       Green g;
       return With(g.context, [] { return cuStreamIsCapturing(CU_STREAM_PER_THREAD, Out<CUstreamCaptureStatus>()); });
     }},
    {"cuEventRecord: stream of the thread in a green context", "streams/stream_state.cc", CUDA_ERROR_INVALID_HANDLE,
     [] {
       Green g;
       return With(g.context, [] {
         Event e;
         return cuEventRecord(e, CU_STREAM_PER_THREAD);
       });
     }},
};

}  // namespace

std::span<const Row> ContextRows() { return kRows; }

}  // namespace refusals
