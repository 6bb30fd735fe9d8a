// The driver as runtimes of CUDA 11 and 12 see it: every function asked of cuGetProcAddress at the version of its time and
// called with the parameters of that version, with streams that are the legacy one and the thread's own.
#define __CUDA_API_VERSION_INTERNAL  // the types of superseded forms
#include <cudaTypedefs.h>

#include <cstring>
#include <vector>

#include "check.h"

namespace {

const char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry store(.param .u64 at, .param .u32 value) {
  .reg .u64 %rd<3>;
  .reg .u32 %r<2>;
  ld.param.u64 %rd1, [at];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";

// What a runtime of `version` gets for `name`: up to 11.8 through the form of cuGetProcAddress that CUDA 11.3 had.
void* Find(const char* name, int version, cuuint64_t flags) {
  static const auto first_form = [] {
    void* found = nullptr;
    CHECK_DRIVER(cuGetProcAddress_v2("cuGetProcAddress", &found, 11080, 0, nullptr));
    return reinterpret_cast<PFN_cuGetProcAddress_v11030>(found);
  }();
  void* found = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult result =
      version < 12000 ? first_form(name, &found, version, flags) : cuGetProcAddress_v2(name, &found, version, flags, &status);
  if (result != CUDA_SUCCESS || found == nullptr) {
    std::fprintf(stderr, "%s of %d with flags %d: %d, status %d\n", name, version, static_cast<int>(flags), result, status);
    std::exit(1);
  }
  return found;
}
// The function of the version in which this form was new; NEWER: asked for by a later runtime, which gets the same form.
#define AT(name, version) (reinterpret_cast<PFN_##name##_v##version>(Find(#name, version, 0)))
#define OWN(name, version) (reinterpret_cast<PFN_##name##_v##version##_ptsz>(Find(#name, version, 2)))
#define NEWER(name, form, version) (reinterpret_cast<PFN_##name##_v##form>(Find(#name, version, 0)))

CUdeviceptr memory;
CUfunction store;

int Value() {
  int value = 0;
  CHECK_DRIVER(AT(cuMemcpyDtoH, 3020)(&value, memory, sizeof(value)));
  return value;
}

void Contexts() {
  CUcontext context, current;
  unsigned version = 0;
  CHECK_DRIVER(AT(cuCtxCreate, 3020)(&context, 0, 0));
  CHECK_DRIVER(AT(cuCtxGetApiVersion, 3020)(context, &version));
  EXPECT_EQ(version, 3020u);
  CHECK_DRIVER(AT(cuCtxDestroy, 4000)(context));
  CHECK_DRIVER(AT(cuCtxCreate, 11040)(&context, nullptr, 0, CU_CTX_SCHED_YIELD, 0));
  unsigned flags = 0;
  CHECK_DRIVER(AT(cuCtxGetFlags, 7000)(&flags));
  EXPECT_EQ(flags & CU_CTX_SCHED_MASK, static_cast<unsigned>(CU_CTX_SCHED_YIELD));
  CHECK_DRIVER(AT(cuCtxPopCurrent, 4000)(&current));
  EXPECT_EQ(current == context, true);
  CHECK_DRIVER(AT(cuCtxDestroy, 4000)(context));
  CHECK_DRIVER(AT(cuCtxCreate, 12050)(&context, nullptr, 0, 0));
  CHECK_DRIVER(AT(cuCtxDestroy, 4000)(context));

  CHECK_DRIVER(AT(cuDevicePrimaryCtxSetFlags, 11000)(0, CU_CTX_SCHED_BLOCKING_SYNC));
  CHECK_DRIVER(AT(cuDevicePrimaryCtxRetain, 7000)(&context, 0));
  CHECK_DRIVER(AT(cuCtxSetCurrent, 4000)(context));
  CUdevice device = 7;
  CHECK_DRIVER(NEWER(cuCtxGetDevice, 2000, 12080)(&device));
  EXPECT_EQ(device, 0);
  device = 7;
  CHECK_DRIVER(AT(cuCtxGetDevice, 13000)(&device, context));
  EXPECT_EQ(device, 0);
  CHECK_DRIVER(NEWER(cuCtxSynchronize, 2000, 12090)());
  CHECK_DRIVER(AT(cuCtxSynchronize, 13000)(context));
  int major = 0, minor = 0, attribute = 0;
  CHECK_DRIVER(AT(cuDeviceComputeCapability, 2000)(&major, &minor, 0));
  CHECK_DRIVER(AT(cuDeviceGetAttribute, 2000)(&attribute, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  EXPECT_EQ(major, attribute);
  CUdevprop properties;
  CHECK_DRIVER(AT(cuDeviceGetProperties, 2000)(&properties, 0));
  CHECK_DRIVER(AT(cuDeviceGetAttribute, 2000)(&attribute, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0));
  EXPECT_EQ(properties.maxThreadsPerBlock, attribute);
  CUuuid old_id, id;
  CHECK_DRIVER(AT(cuDeviceGetUuid, 9020)(&old_id, 0));
  CHECK_DRIVER(AT(cuDeviceGetUuid, 11040)(&id, 0));
  EXPECT_EQ(std::memcmp(&old_id, &id, sizeof(id)), 0);
}

void Code() {
  char log[512] = "unchanged";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_OPTIMIZATION_LEVEL};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log)), reinterpret_cast<void*>(2)};
  CUmodule module;
  CHECK_DRIVER(AT(cuModuleLoadDataEx, 2010)(&module, kPtx, 3, options, values));
  CHECK_DRIVER(AT(cuModuleUnload, 2000)(module));
  // Linked, with the functions as they were before CUDA 6.5.
  CUlinkState link;
  CHECK_DRIVER(AT(cuLinkCreate, 6050)(0, nullptr, nullptr, &link));
  CHECK_DRIVER(
      AT(cuLinkAddData, 6050)(link, CU_JIT_INPUT_PTX, const_cast<char*>(kPtx), sizeof(kPtx), "store", 0, nullptr, nullptr));
  void* image = nullptr;
  size_t bytes = 0;
  CHECK_DRIVER(AT(cuLinkComplete, 5050)(link, &image, &bytes));
  CHECK_DRIVER(AT(cuModuleLoadData, 2000)(&module, image));
  CHECK_DRIVER(AT(cuLinkDestroy, 5050)(link));
  CHECK_DRIVER(AT(cuModuleGetFunction, 2000)(&store, module, "store"));
}

void Streams() {
  CUstream stream;
  CHECK_DRIVER(AT(cuStreamCreate, 2000)(&stream, CU_STREAM_NON_BLOCKING));
  CUcontext context = nullptr, wanted = nullptr;
  CUgreenCtx green = reinterpret_cast<CUgreenCtx>(&green);
  CHECK_DRIVER(AT(cuCtxGetCurrent, 4000)(&wanted));
  CHECK_DRIVER(AT(cuStreamGetCtx, 9020)(stream, &context));
  EXPECT_EQ(context == wanted, true);
  CHECK_DRIVER(AT(cuStreamGetCtx, 12050)(stream, &context, &green));
  EXPECT_EQ(context == wanted && green == nullptr, true);

  CUevent begin, end;
  CHECK_DRIVER(AT(cuEventCreate, 2000)(&begin, 0));
  CHECK_DRIVER(AT(cuEventCreate, 2000)(&end, 0));
  CHECK_DRIVER(OWN(cuEventRecord, 7000)(begin, nullptr));
  int value = 5;
  void* parameters[] = {&memory, &value};
  CHECK_DRIVER(OWN(cuLaunchKernel, 7000)(store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK_DRIVER(OWN(cuEventRecord, 7000)(end, nullptr));
  CHECK_DRIVER(OWN(cuStreamSynchronize, 7000)(nullptr));
  float time_ms = -1;
  CHECK_DRIVER(AT(cuEventElapsedTime, 2000)(&time_ms, begin, end));
  EXPECT_EQ(time_ms >= 0, true);
  CHECK_DRIVER(AT(cuEventElapsedTime, 12080)(&time_ms, begin, end));
  EXPECT_EQ(time_ms >= 0, true);
  EXPECT_EQ(Value(), 5);
  int first_memory_operations = 0;  // needs a setting of the kernel's driver
  CHECK_DRIVER(AT(cuDeviceGetAttribute, 2000)(&first_memory_operations, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 0));
  if (first_memory_operations != 0) {
    CHECK_DRIVER(AT(cuStreamWriteValue32, 8000)(stream, memory, 6, 0));
    CHECK_DRIVER(AT(cuStreamSynchronize, 2000)(stream));
    EXPECT_EQ(Value(), 6);
  }
  CHECK_DRIVER(OWN(cuStreamWriteValue32, 11070)(nullptr, memory, 7, 0));
  CHECK_DRIVER(OWN(cuStreamSynchronize, 7000)(nullptr));
  EXPECT_EQ(Value(), 7);
  CHECK_DRIVER(AT(cuEventDestroy, 4000)(begin));
  CHECK_DRIVER(AT(cuEventDestroy, 4000)(end));
  CHECK_DRIVER(AT(cuStreamDestroy, 4000)(stream));
}

template <typename Params>
Params Node(void** parameters) {
  Params node{};
  node.func = store;
  node.gridDimX = node.gridDimY = node.gridDimZ = node.blockDimX = node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = parameters;
  return node;
}

// A graph made, changed and updated as CUDA 11 does it, then as CUDA 12 does it.
void Graphs() {
  int value = 10;
  void* parameters[] = {&memory, &value};
  const auto first_params = Node<CUDA_KERNEL_NODE_PARAMS_v1>(parameters);
  CUgraph graph;
  CUgraphNode first, second, empty;
  CHECK_DRIVER(AT(cuGraphCreate, 10000)(&graph, 0));
  CHECK_DRIVER(NEWER(cuGraphAddKernelNode, 10000, 11080)(&first, graph, nullptr, 0, &first_params));
  value = 11;
  const auto second_params = Node<CUDA_KERNEL_NODE_PARAMS_v2>(parameters);
  CHECK_DRIVER(AT(cuGraphAddKernelNode, 12000)(&second, graph, nullptr, 0, &second_params));
  CHECK_DRIVER(NEWER(cuGraphAddDependencies, 10000, 12000)(graph, &first, &second, 1));
  CHECK_DRIVER(AT(cuGraphAddEmptyNode, 10000)(&empty, graph, nullptr, 0));
  CHECK_DRIVER(AT(cuGraphAddDependencies, 12030)(graph, &second, &empty, nullptr, 1));
  CUgraphNode from[4] = {}, to[4] = {};
  CUgraphEdgeData data[4];
  size_t count = 4;
  CHECK_DRIVER(NEWER(cuGraphGetEdges, 10000, 12020)(graph, from, to, &count));
  EXPECT_EQ(count, size_t{2});
  CHECK_DRIVER(AT(cuGraphGetEdges, 12030)(graph, from, to, data, &count));
  EXPECT_EQ(count, size_t{2});
  count = 4;
  CHECK_DRIVER(AT(cuGraphNodeGetDependencies, 10000)(second, from, &count));
  EXPECT_EQ(count == 1 && from[0] == first, true);
  count = 4;
  CHECK_DRIVER(AT(cuGraphNodeGetDependencies, 12030)(empty, from, data, &count));
  EXPECT_EQ(count == 1 && from[0] == second, true);
  CUDA_KERNEL_NODE_PARAMS_v1 got{};
  CHECK_DRIVER(AT(cuGraphKernelNodeGetParams, 10000)(second, &got));
  EXPECT_EQ(got.func == store && *static_cast<int*>(got.kernelParams[1]) == 11, true);
  CUDA_KERNEL_NODE_PARAMS_v2 got2{};
  CHECK_DRIVER(AT(cuGraphKernelNodeGetParams, 12000)(first, &got2));
  EXPECT_EQ(got2.func == store && *static_cast<int*>(got2.kernelParams[1]) == 10, true);

  CUgraphExec exec;
  CUgraphNode error_node;
  char log[64];
  CHECK_DRIVER(NEWER(cuGraphInstantiate, 10000, 10020)(&exec, graph, &error_node, log, sizeof(log)));
  CHECK_DRIVER(AT(cuGraphLaunch, 10000)(exec, nullptr));
  CHECK_DRIVER(AT(cuStreamSynchronize, 2000)(nullptr));
  EXPECT_EQ(Value(), 11);
  value = 12;
  const auto third_params = Node<CUDA_KERNEL_NODE_PARAMS_v1>(parameters);
  CHECK_DRIVER(AT(cuGraphExecKernelNodeSetParams, 10010)(exec, second, &third_params));
  CHECK_DRIVER(AT(cuGraphLaunch, 10000)(exec, nullptr));
  EXPECT_EQ(Value(), 12);
  value = 13;
  CHECK_DRIVER(AT(cuGraphKernelNodeSetParams, 10000)(second, &third_params));
  CUgraphExecUpdateResult updated = CU_GRAPH_EXEC_UPDATE_ERROR;
  CHECK_DRIVER(NEWER(cuGraphExecUpdate, 10020, 11080)(exec, graph, &error_node, &updated));
  EXPECT_EQ(static_cast<int>(updated), static_cast<int>(CU_GRAPH_EXEC_UPDATE_SUCCESS));
  CHECK_DRIVER(AT(cuGraphLaunch, 10000)(exec, nullptr));
  EXPECT_EQ(Value(), 13);
  value = 14;
  CHECK_DRIVER(AT(cuGraphKernelNodeSetParams, 12000)(second, &second_params));
  CUgraphExecUpdateResultInfo info{};
  CHECK_DRIVER(AT(cuGraphExecUpdate, 12000)(exec, graph, &info));
  EXPECT_EQ(static_cast<int>(info.result), static_cast<int>(CU_GRAPH_EXEC_UPDATE_SUCCESS));
  CHECK_DRIVER(AT(cuGraphLaunch, 10000)(exec, nullptr));
  EXPECT_EQ(Value(), 14);
  CHECK_DRIVER(AT(cuGraphExecDestroy, 10000)(exec));
  CHECK_DRIVER(AT(cuGraphInstantiate, 11000)(&exec, graph, &error_node, log, sizeof(log)));
  CHECK_DRIVER(AT(cuGraphExecDestroy, 10000)(exec));
  CHECK_DRIVER(AT(cuGraphInstantiateWithFlags, 11040)(&exec, graph, 0));
  CHECK_DRIVER(AT(cuGraphExecDestroy, 10000)(exec));
  CHECK_DRIVER(AT(cuGraphDestroy, 10000)(graph));
}

void Capture() {
  CUstream stream;
  CHECK_DRIVER(AT(cuStreamCreate, 2000)(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_DRIVER(NEWER(cuStreamBeginCapture, 10000, 10000)(stream));  // the form without a mode: a global capture
  int value = 20;
  void* parameters[] = {&memory, &value};
  CHECK_DRIVER(AT(cuLaunchKernel, 4000)(store, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0, id2 = 0, id3 = 0;
  CUgraph graph = nullptr, graph2 = nullptr;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
  CHECK_DRIVER(NEWER(cuStreamGetCaptureInfo, 10010, 11020)(stream, &status, &id));
  EXPECT_EQ(static_cast<int>(status), static_cast<int>(CU_STREAM_CAPTURE_STATUS_ACTIVE));
  CHECK_DRIVER(NEWER(cuStreamGetCaptureInfo, 11030, 12000)(stream, &status, &id2, &graph, &nodes, &count));
  EXPECT_EQ(id2 == id && count == 1, true);
  CHECK_DRIVER(AT(cuStreamGetCaptureInfo, 12030)(stream, &status, &id3, &graph2, &nodes, &edges, &count));
  EXPECT_EQ(id3 == id && graph2 == graph && count == 1, true);
  CUgraphNode last = nodes[0];
  CHECK_DRIVER(NEWER(cuStreamUpdateCaptureDependencies, 11030, 11080)(stream, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  CHECK_DRIVER(AT(cuStreamUpdateCaptureDependencies, 12030)(stream, &last, nullptr, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  CHECK_DRIVER(AT(cuStreamEndCapture, 10000)(stream, &graph));
  CUgraphExec exec;
  CUgraphNode error_node;
  CHECK_DRIVER(AT(cuGraphInstantiate, 11000)(&exec, graph, &error_node, nullptr, 0));
  CHECK_DRIVER(AT(cuGraphLaunch, 10000)(exec, stream));
  CHECK_DRIVER(AT(cuStreamSynchronize, 2000)(stream));
  EXPECT_EQ(Value(), 20);
  CHECK_DRIVER(AT(cuGraphExecDestroy, 10000)(exec));
  CHECK_DRIVER(AT(cuGraphDestroy, 10000)(graph));

  // The thread's own stream captures under its own name.
  CHECK_DRIVER(OWN(cuStreamBeginCapture, 10010)(nullptr, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CHECK_DRIVER(OWN(cuStreamGetCaptureInfo, 10010)(nullptr, &status, &id));
  EXPECT_EQ(static_cast<int>(status), static_cast<int>(CU_STREAM_CAPTURE_STATUS_ACTIVE));
  CHECK_DRIVER(OWN(cuStreamEndCapture, 10000)(nullptr, &graph));
  CHECK_DRIVER(AT(cuGraphDestroy, 10000)(graph));
  CHECK_DRIVER(AT(cuStreamDestroy, 4000)(stream));
}

}  // namespace

int main() {
  CHECK_DRIVER(AT(cuInit, 2000)(0));
  Contexts();
  CHECK_DRIVER(AT(cuMemAlloc, 3020)(&memory, 4));
  Code();
  Streams();
  Graphs();
  Capture();
  CHECK_DRIVER(AT(cuMemFree, 3020)(memory));
  CHECK_DRIVER(AT(cuDevicePrimaryCtxRelease, 7000)(0));
  std::printf("ok\n");
}
