// Launches, and what functions and kernels are asked.
#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
constexpr CUresult kHandle = CUDA_ERROR_INVALID_HANDLE;

struct Shape {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1, block_x = 1, block_y = 1, block_z = 1, shared_bytes = 0;
};

CUresult Launch(CUfunction f, CUstream s, Shape shape = {}, void** params = nullptr) {
  const CUresult result = cuLaunchKernel(f, shape.grid_x, shape.grid_y, shape.grid_z, shape.block_x, shape.block_y, shape.block_z,
                                         shape.shared_bytes, s, params, nullptr);
  cuStreamSynchronize(s);
  return result;
}

CUresult LaunchShape(Shape shape) {
  Module m;
  Stream s;
  return Launch(m["Nothing"], s, shape);
}

// After a launch that is legal and known to be so: nothing of the first may speak for the second.
CUresult LaunchAfter(Shape legal, Shape shape) {
  Module m;
  Stream s;
  const CUfunction f = m["Nothing"];
  CHECK_DRIVER(Launch(f, s, legal));
  CHECK_DRIVER(Launch(f, s, legal));
  return Launch(f, s, shape);
}

CUresult LaunchWith(CUfunction f, CUlaunchAttribute attribute, unsigned grid_x = 1) {
  Stream s;
  CUlaunchConfig config{};
  config.gridDimX = grid_x;
  config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = s;
  config.attrs = &attribute;
  config.numAttrs = 1;
  const CUresult result = cuLaunchKernelEx(&config, f, nullptr, nullptr);
  cuStreamSynchronize(s);
  return result;
}

CUlaunchAttribute Clusters(unsigned x, unsigned y = 1, unsigned z = 1) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {x, y, z};
  return attribute;
}

CUlaunchAttribute Completion(CUevent event) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
  attribute.value.launchCompletionEvent.event = event;
  return attribute;
}

// Launches Store with its parameter as bytes, of which there are said to be `bytes` (0: that is left out), or in both forms.
CUresult LaunchStore(bool both, size_t bytes) {
  Module m;
  Stream s;
  Block b;
  uint64_t buffer[8] = {b};
  void* const values[] = {buffer};
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  if (bytes == 0) extra[2] = CU_LAUNCH_PARAM_END;
  const CUresult result = cuLaunchKernel(m["Store"], 1, 1, 1, 1, 1, 1, 0, s, both ? const_cast<void**>(values) : nullptr, extra);
  cuStreamSynchronize(s);
  return result;
}

const Row kRows[] = {
    {"cuLaunchKernel: null function", "call/call.cc", kHandle, [] { return Launch(nullptr, Stream()); }},
    {"cuLaunchKernel: function of another context", "calls/launch.cc", kHandle,
     [] { return Launch(FunctionOf(OtherContext()), Stream()); }},
    {"cuLaunchKernel: stream of another context", "calls/launch.cc", kHandle,
     [] { return Launch(Module()["Nothing"], StreamOf(OtherContext())); }},
    {"cuLaunchKernel: function and stream of a context that is not current", "calls/launch.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       return Launch(FunctionOf(other), StreamOf(other));
     }},
    {"cuLaunchKernel: kernel, stream of another context", "calls/launch.cc", CUDA_SUCCESS,
     [] { return Launch(reinterpret_cast<CUfunction>(Library()["Nothing"]), StreamOf(OtherContext())); }},
    {"cuLaunchKernel: stream of another context, the function is known", "calls/launch.cc", kHandle,
     [] {
       OtherContext other;
       Module m;
       Stream s;
       const CUfunction f = m["Nothing"];
       CHECK_DRIVER(Launch(f, s));
       CHECK_DRIVER(Launch(f, s));
       return Launch(f, StreamOf(other));
     }},
    {"cuLaunchKernel: the error after that", "calls/launch.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       Module m;
       Stream s;
       const CUfunction f = m["Nothing"];
       CHECK_DRIVER(Launch(f, s));
       CHECK_DRIVER(Launch(f, s));
       cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, StreamOf(other), nullptr, nullptr);
       return cuCtxSynchronize();
     }},
    {"cuLaunchKernel: function of an unloaded module", "call/call.cc", kHandle,
     [] {
       CUfunction f;
       {
         Module m;
         f = m["Nothing"];
       }
       Stream s;
       return Launch(f, s);
     },
     kDangerous},
    {"cuLaunchKernel: kernel of an unloaded library", "call/call.cc", kHandle,
     [] {
       CUkernel k;
       {
         Library l;
         k = l["Nothing"];
       }
       Stream s;
       return Launch(reinterpret_cast<CUfunction>(k), s);
     },
     kDangerous},
    {"cuLaunchKernel: destroyed stream", "call/call.cc", kHandle, [] { return Launch(Module()["Nothing"], Gone<Stream>()); },
     kDangerous},
    {"cuLaunchKernel: a module in place of a function", "call/call.cc", kHandle,
     [] { return Launch(reinterpret_cast<CUfunction>(Module().it), Stream()); }, kDangerous},
    {"cuLaunchKernel: no parameters where the kernel has one", "code/kernel_params.cc", kInvalid,
     [] { return Launch(Module()["Store"], Stream()); }},
    {"cuLaunchKernel: grid of 0", "calls/launch.cc", kInvalid, [] { return LaunchShape({.grid_x = 0}); }},
    {"cuLaunchKernel: block of 0", "calls/launch.cc", kInvalid, [] { return LaunchShape({.block_y = 0}); }},
    {"cuLaunchKernel: 1025 threads", "calls/launch.cc", kInvalid, [] { return LaunchShape({.block_x = 1025}); }},
    {"cuLaunchKernel: 1025 threads, after a legal launch", "calls/launch.cc", kInvalid,
     [] { return LaunchAfter({.block_x = 1024}, {.block_x = 1025}); }},
    {"cuLaunchKernel: block of depth 65, after a legal launch", "calls/launch.cc", kInvalid,
     [] { return LaunchAfter({.block_x = 128}, {.block_z = 65}); }},
    {"cuLaunchKernel: threads of which 32 bits are few, after a legal launch", "calls/launch.cc", kInvalid,
     [] { return LaunchAfter({.block_x = 128}, {.block_x = 65536, .block_y = 65536, .block_z = 1}); }},
    {"cuLaunchKernel: grid of height 65536", "calls/launch.cc", kInvalid, [] { return LaunchShape({.grid_y = 65536}); }},
    {"cuLaunchKernel: grid of height 65536, after a legal launch", "calls/launch.cc", kInvalid,
     [] { return LaunchAfter({}, {.grid_y = 65536}); }},
    {"cuLaunchKernel: grid of depth 65536, after a legal launch", "calls/launch.cc", kInvalid,
     [] { return LaunchAfter({}, {.grid_z = 65536}); }},
    {"cuLaunchKernel: grid of width 2^31, after a legal launch", "calls/launch.cc", kInvalid,
     [] { return LaunchAfter({}, {.grid_x = 0x80000000u}); }},
    {"cuLaunchKernel: too much shared memory", "calls/launch.cc", kInvalid,
     [] { return LaunchShape({.shared_bytes = 64 << 10}); }},
    {"cuLaunchKernel: too much shared memory, after a legal launch", "calls/launch.cc", kInvalid,
     [] { return LaunchAfter({.shared_bytes = 48 << 10}, {.shared_bytes = 64 << 10}); }},
    {"cuLaunchCooperativeKernel: more blocks than the device holds", "calls/launch.cc", CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
     [] { return cuLaunchCooperativeKernel(Module()["Nothing"], 1 << 20, 1, 1, 1024, 1, 1, 0, Stream(), nullptr); }},
    {"cuLaunchCooperativeKernel: more blocks than the device holds, after a legal launch", "calls/launch.cc",
     CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
     [] {
       Module m;
       Stream s;
       const CUfunction f = m["Nothing"];
       CHECK_DRIVER(cuLaunchCooperativeKernel(f, 1, 1, 1, 1024, 1, 1, 0, s, nullptr));
       return cuLaunchCooperativeKernel(f, 1 << 20, 1, 1, 1024, 1, 1, 0, s, nullptr);
     }},
    {"cuLaunchKernelEx: clusters that do not divide the grid", "code/launch_attributes.cc", CUDA_ERROR_INVALID_CLUSTER_SIZE,
     [] { return LaunchWith(Module()["Nothing"], Clusters(2), 3); }},
    {"cuLaunchKernelEx: clusters that do not divide the grid, after a legal launch", "calls/launch.cc",
     CUDA_ERROR_INVALID_CLUSTER_SIZE,
     [] {
       Module m;
       CHECK_DRIVER(LaunchWith(m["Nothing"], Clusters(2), 4));
       CHECK_DRIVER(LaunchWith(m["Nothing"], Clusters(2), 4));
       return LaunchWith(m["Nothing"], Clusters(2), 3);
     }},
    {"cuLaunchKernelEx: the context after that", "calls/launch.cc", CUDA_SUCCESS,
     [] {
       Module m;
       CHECK_DRIVER(LaunchWith(m["Nothing"], Clusters(2), 4));
       CHECK_DRIVER(LaunchWith(m["Nothing"], Clusters(2), 4));
       LaunchWith(m["Nothing"], Clusters(2), 3);
       return cuCtxSynchronize();
     }},
    {"cuLaunchKernelEx: clusters that no device takes", "calls/launch.cc", CUDA_ERROR_INVALID_CLUSTER_SIZE,
     [] { return LaunchWith(Module()["Nothing"], Clusters(64), 64); }},
    {"cuLaunchKernelEx: cluster of 0", "calls/launch.cc", CUDA_SUCCESS,
     [] { return LaunchWith(Module()["Nothing"], Clusters(0, 0, 0), 4); }},
    {"cuLaunchKernelEx: unknown attribute", "calls/launch.cc", kInvalid,
     [] {
       Module m;
       CUlaunchAttribute a{};
       a.id = static_cast<CUlaunchAttributeID>(99);
       return LaunchWith(m["Nothing"], a);
     }},
    {"cuLaunchKernelEx: destroyed event", "call/call.cc", CUDA_ERROR_INVALID_HANDLE,
     [] { return LaunchWith(Module()["Nothing"], Completion(Gone<Event>())); }, kNeedsGpu | kDangerous},
    {"cuLaunchKernelEx: event with times", "server", CUDA_ERROR_NOT_SUPPORTED,
     [] { return LaunchWith(Module()["Nothing"], Completion(Event())); }, kNeedsGpu},
    {"cuLaunchKernelEx: event of another context", "server", kHandle,
     [] {
       Module m;
       OtherContext other;
       const CUevent e = EventOf(other, CU_EVENT_DISABLE_TIMING);
       return LaunchWith(m["Nothing"], Completion(e));
     },
     kNeedsGpu},
    {"cuLaunchKernelEx: node that kernels change", "calls/launch.cc", CUDA_ERROR_NOT_SUPPORTED,
     [] {
       Module m;
       CUlaunchAttribute a{};
       a.id = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
       a.value.deviceUpdatableKernelNode.deviceUpdatable = 1;
       return LaunchWith(m["Nothing"], a);
     }},
    {"cuLaunchCooperativeKernelMultiDevice: default stream", "calls/launch.cc", kHandle,
     [] {
       Module m;
       CUDA_LAUNCH_PARAMS p{m["Nothing"], 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr};
       return cuLaunchCooperativeKernelMultiDevice(&p, 1, 0);
     }},
    {"cuLaunchCooperativeKernelMultiDevice: the legacy stream by its name", "calls/launch.cc", kHandle,
     [] {
       Module m;
       CUDA_LAUNCH_PARAMS p{m["Nothing"], 1, 1, 1, 1, 1, 1, 0, CU_STREAM_LEGACY, nullptr};
       return cuLaunchCooperativeKernelMultiDevice(&p, 1, 0);
     }},
    {"cuLaunchCooperativeKernelMultiDevice: the stream of the thread", "calls/launch.cc", kHandle,
     [] {
       Module m;
       CUDA_LAUNCH_PARAMS p{m["Nothing"], 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, nullptr};
       return cuLaunchCooperativeKernelMultiDevice(&p, 1, 0);
     }},
    {"cuLaunchKernel: parameters in both forms", "code/kernel_params.cc", kInvalid, [] { return LaunchStore(true, 8); }},
    {"cuLaunchKernel: parameters as bytes", "code/kernel_params.cc", CUDA_SUCCESS, [] { return LaunchStore(false, 8); }},
    {"cuLaunchKernel: more bytes of parameters than the kernel has", "code/kernel_params.cc", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
     [] { return LaunchStore(false, 64); }},
    {"cuLaunchKernel: bytes of parameters without their number", "code/kernel_params.cc", kInvalid,
     [] { return LaunchStore(false, 0); }},
    {"cuFuncGetParamInfo: parameter that the function has not", "calls/launch.cc", kInvalid,
     [] { return cuFuncGetParamInfo(Module()["Store"], 1, Out<size_t>(), Out<size_t>()); }},
    {"cuKernelGetParamInfo: parameter that the kernel has not", "calls/library.cc", kInvalid,
     [] { return cuKernelGetParamInfo(Library()["Store"], 1, Out<size_t>(), Out<size_t>()); }},
    {"cuLaunchCooperativeKernelMultiDevice: more launches than devices", "calls/launch.cc", kInvalid,
     [] {
       Module m;
       Stream s;
       CUDA_LAUNCH_PARAMS p[32];
       for (auto& one : p) one = {m["Nothing"], 1, 1, 1, 1, 1, 1, 0, s, nullptr};
       return cuLaunchCooperativeKernelMultiDevice(p, 32, 0);
     }},
    {"cuFuncGetAttribute: null function", "call/call.cc", kHandle,
     [] { return cuFuncGetAttribute(Out<int>(), CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr); }},
    {"cuFuncGetAttribute: unknown attribute", "calls/launch.cc", kInvalid,
     [] { return cuFuncGetAttribute(Out<int>(), static_cast<CUfunction_attribute>(99), Module()["Nothing"]); }},
    {"cuFuncSetAttribute: attribute that is only read", "calls/launch.cc", kInvalid,
     [] { return cuFuncSetAttribute(Module()["Nothing"], CU_FUNC_ATTRIBUTE_NUM_REGS, 1); }},
    {"cuFuncSetAttribute: more shared memory than there is", "calls/launch.cc", kInvalid,
     [] { return cuFuncSetAttribute(Module()["Nothing"], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20); }},
    {"cuFuncGetName: null function", "calls/launch.cc", kInvalid,
     [] {
       const char* name;
       return cuFuncGetName(&name, nullptr);
     }},
    {"cuKernelGetName: null kernel", "calls/library.cc", kInvalid,
     [] {
       const char* name;
       return cuKernelGetName(&name, nullptr);
     }},
    {"cuFuncGetModule: null function", "calls/module.cc", kInvalid, [] { return cuFuncGetModule(Out<CUmodule>(), nullptr); }},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor: null function", "calls/occupancy.cc", kHandle,
     [] { return cuOccupancyMaxActiveBlocksPerMultiprocessor(Out<int>(), nullptr, 32, 0); }},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor: block of 0", "calls/occupancy.cc", kInvalid,
     [] { return cuOccupancyMaxActiveBlocksPerMultiprocessor(Out<int>(), Module()["Nothing"], 0, 0); }},
    {"cuFuncSetBlockShape: 1025 threads", "code/prepared_launch.cc", kInvalid,
     [] { return cuFuncSetBlockShape(Module()["Nothing"], 1025, 1, 1); }},
    {"cuFuncSetSharedSize: too much shared memory", "calls/prepared_launch.cc", kInvalid,
     [] { return cuFuncSetSharedSize(Module()["Nothing"], 1 << 20); }},
    {"cuLaunchGrid: grid of 0", "calls/prepared_launch.cc", kInvalid, [] { return cuLaunchGrid(Module()["Nothing"], 0, 1); }},
    {"cuParamSetv: beyond all parameters", "code/prepared_launch.cc", kInvalid,
     [] {
       Module m;
       int v = 0;
       return cuParamSetv(m["Nothing"], 1 << 20, &v, sizeof(v));
     }},
};

}  // namespace

std::span<const Row> LaunchRows() { return kRows; }

}  // namespace refusals
