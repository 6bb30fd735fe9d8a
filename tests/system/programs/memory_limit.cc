// What a program may hold of a vGPU's memory, path by path, to the last piece: each path takes until it is refused, and gives
// back. It prints a line for each: what it was, and how many bytes it had.
//
//   memory_limit            every path below, each from nothing to the limit
//   memory_limit PATH       that path alone
//   memory_limit hold N     holds N MiB, prints a line, and frees them when a line comes
//   memory_limit share N    the same, and the line is the handle by which others open them
//   memory_limit local N    the same, of local memory that a kernel needs
//   memory_limit try N      whether N MiB can be had: prints yes or no
//   memory_limit open HANDLE  whether these can be opened: likewise
//
// The device's total memory is the limit to it.
#include <cuda.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "check.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;

CUcontext context;
size_t limit_bytes;

size_t Free() {
  size_t free = 0, total = 0;
  CHECK_DRIVER(cuMemGetInfo(&free, &total));
  EXPECT_EQ(total, limit_bytes);
  return free;
}

CUmemAllocationProp OnDevice() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}

void ExpectRefused(CUresult result) { EXPECT_EQ(static_cast<int>(result), static_cast<int>(CUDA_ERROR_OUT_OF_MEMORY)); }

// Takes pieces of `bytes` until one is refused; the bytes of those it had.
template <typename Piece>
size_t TakeAll(size_t bytes, std::vector<Piece>* pieces, const std::function<CUresult(Piece*)>& take) {
  for (;;) {
    Piece piece{};
    const CUresult result = take(&piece);
    if (result != CUDA_SUCCESS) {
      ExpectRefused(result);
      return pieces->size() * bytes;
    }
    pieces->push_back(piece);
  }
}

size_t Blocks() {
  std::vector<CUdeviceptr> pieces;
  const size_t held = TakeAll<CUdeviceptr>(2 * kMiB, &pieces, [](CUdeviceptr* one) { return cuMemAlloc(one, 2 * kMiB); });
  CUdeviceptr more = 0;
  ExpectRefused(cuMemAlloc(&more, 2 * kMiB));
  for (const CUdeviceptr piece : pieces) CHECK_DRIVER(cuMemFree(piece));
  CHECK_DRIVER(cuMemAlloc(&more, limit_bytes));  // what is kept for reuse is in nobody's way
  CHECK_DRIVER(cuMemFree(more));
  return held;
}

size_t SmallBlocks() {
  std::vector<CUdeviceptr> pieces;
  const size_t held = TakeAll<CUdeviceptr>(kMiB / 4, &pieces, [](CUdeviceptr* one) { return cuMemAlloc(one, kMiB / 4); });
  for (const CUdeviceptr piece : pieces) CHECK_DRIVER(cuMemFree(piece));
  return held;
}

size_t Pitched() {
  std::vector<CUdeviceptr> pieces;
  size_t pitch = 0;
  const size_t held =
      TakeAll<CUdeviceptr>(4 * kMiB, &pieces, [&](CUdeviceptr* one) { return cuMemAllocPitch(one, &pitch, 4000, 1024, 4); });
  EXPECT_EQ(pitch, size_t{4096});
  for (const CUdeviceptr piece : pieces) CHECK_DRIVER(cuMemFree(piece));
  return held;
}

size_t Physical() {
  const CUmemAllocationProp properties = OnDevice();
  std::vector<CUmemGenericAllocationHandle> pieces;
  const auto take = [&](CUmemGenericAllocationHandle* one) { return cuMemCreate(one, 2 * kMiB, &properties, 0); };
  const size_t held = TakeAll<CUmemGenericAllocationHandle>(2 * kMiB, &pieces, take);
  for (const auto piece : pieces) CHECK_DRIVER(cuMemRelease(piece));
  return held;
}

// A handle that was released before its mapping was removed holds the memory on.
size_t ReleasedButMapped() {
  const CUmemAllocationProp properties = OnDevice();
  const size_t half = limit_bytes / 2;
  CUdeviceptr address = 0, none = 0;
  CUmemGenericAllocationHandle memory = 0, other = 0;
  CHECK_DRIVER(cuMemAddressReserve(&address, half, 0, 0, 0));
  CHECK_DRIVER(cuMemCreate(&memory, half, &properties, 0));
  CHECK_DRIVER(cuMemMap(address, half, 0, memory, 0));
  CHECK_DRIVER(cuMemRelease(memory));
  CHECK_DRIVER(cuMemCreate(&other, half, &properties, 0));
  ExpectRefused(cuMemAlloc(&none, 2 * kMiB));
  // Its address has a handle again, which holds it when the mapping is gone.
  CHECK_DRIVER(cuMemRetainAllocationHandle(&memory, reinterpret_cast<void*>(address)));
  CHECK_DRIVER(cuMemUnmap(address, half));
  ExpectRefused(cuMemAlloc(&none, 2 * kMiB));
  CHECK_DRIVER(cuMemRelease(memory));
  CHECK_DRIVER(cuMemAlloc(&none, half));
  CHECK_DRIVER(cuMemFree(none));
  CHECK_DRIVER(cuMemRelease(other));
  CHECK_DRIVER(cuMemAddressFree(address, half));
  return limit_bytes;
}

void* AsHandle(int descriptor) { return reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)); }

// A descriptor of memory whose handle was released holds it until it is closed.
size_t Exported() {
  CUmemAllocationProp properties = OnDevice();
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle memory = 0;
  std::vector<int> pieces;
  const size_t held = TakeAll<int>(8 * kMiB, &pieces, [&](int* one) {
    const CUresult result = cuMemCreate(&memory, 8 * kMiB, &properties, 0);
    if (result != CUDA_SUCCESS) return result;
    CHECK_DRIVER(cuMemExportToShareableHandle(one, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK_DRIVER(cuMemRelease(memory));
    EXPECT_EQ(pieces.size() < limit_bytes / (8 * kMiB), true);  // else it would go on for ever
    return CUDA_SUCCESS;
  });
  // The session's own memory, which counts once.
  CHECK_DRIVER(cuMemImportFromShareableHandle(&memory, AsHandle(pieces[0]), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  CUdeviceptr none = 0;
  ExpectRefused(cuMemAlloc(&none, 2 * kMiB));
  for (const int piece : pieces) EXPECT_EQ(close(piece), 0);
  ExpectRefused(cuMemAlloc(&none, limit_bytes - 6 * kMiB));
  CHECK_DRIVER(cuMemAlloc(&none, limit_bytes - 8 * kMiB));
  CHECK_DRIVER(cuMemFree(none));
  CHECK_DRIVER(cuMemRelease(memory));
  CHECK_DRIVER(cuMemAlloc(&none, limit_bytes));
  CHECK_DRIVER(cuMemFree(none));
  return held;
}

// So does one of a pool that was destroyed: what the pool had.
size_t ExportedPool() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  CUdeviceptr half = 0, none = 0;
  int descriptor = -1;
  CHECK_DRIVER(cuMemPoolCreate(&pool, &properties));
  CHECK_DRIVER(cuMemAllocFromPoolAsync(&half, limit_bytes / 2, pool, nullptr));
  CHECK_DRIVER(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CHECK_DRIVER(cuMemPoolDestroy(pool));
  CHECK_DRIVER(cuMemFreeAsync(half, nullptr));
  CHECK_DRIVER(cuCtxSynchronize());
  ExpectRefused(cuMemAlloc(&none, limit_bytes / 2 + 2 * kMiB));
  EXPECT_EQ(close(descriptor), 0);
  CHECK_DRIVER(cuMemAlloc(&none, limit_bytes));
  CHECK_DRIVER(cuMemFree(none));
  return limit_bytes;
}

size_t Pool() {
  std::vector<CUdeviceptr> pieces;
  const size_t held =
      TakeAll<CUdeviceptr>(2 * kMiB, &pieces, [](CUdeviceptr* one) { return cuMemAllocAsync(one, 2 * kMiB, nullptr); });
  for (const CUdeviceptr piece : pieces) CHECK_DRIVER(cuMemFreeAsync(piece, nullptr));
  CHECK_DRIVER(cuCtxSynchronize());
  CUdeviceptr block = 0;
  CHECK_DRIVER(cuMemAlloc(&block, limit_bytes));  // what the pool keeps is in nobody's way
  CHECK_DRIVER(cuMemFree(block));
  return held;
}

// A pool that is destroyed holds what was allocated in it.
size_t DestroyedPool() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  CUdeviceptr half = 0, none = 0;
  CHECK_DRIVER(cuMemPoolCreate(&pool, &properties));
  CHECK_DRIVER(cuMemAllocFromPoolAsync(&half, limit_bytes / 2, pool, nullptr));
  CHECK_DRIVER(cuMemPoolDestroy(pool));
  ExpectRefused(cuMemAlloc(&none, limit_bytes / 2 + 2 * kMiB));
  CHECK_DRIVER(cuMemFreeAsync(half, nullptr));
  CHECK_DRIVER(cuCtxSynchronize());
  CHECK_DRIVER(cuMemAlloc(&none, limit_bytes));
  CHECK_DRIVER(cuMemFree(none));
  return limit_bytes;
}

size_t Arrays() {
  CUDA_ARRAY_DESCRIPTOR descriptor{};
  descriptor.Width = 1024;
  descriptor.Height = 512;
  descriptor.Format = CU_AD_FORMAT_FLOAT;
  descriptor.NumChannels = 1;
  std::vector<CUarray> pieces;
  const size_t held = TakeAll<CUarray>(2 * kMiB, &pieces, [&](CUarray* one) { return cuArrayCreate(one, &descriptor); });
  for (CUarray piece : pieces) CHECK_DRIVER(cuArrayDestroy(piece));
  return held;
}

size_t Volumes() {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = descriptor.Height = 128;
  descriptor.Depth = 32;
  descriptor.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  descriptor.NumChannels = 1;
  std::vector<CUarray> pieces;
  const size_t held = TakeAll<CUarray>(2 * kMiB, &pieces, [&](CUarray* one) { return cuArray3DCreate(one, &descriptor); });
  for (CUarray piece : pieces) CHECK_DRIVER(cuArrayDestroy(piece));
  return held;
}

size_t Mipmaps() {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = descriptor.Height = 512;
  descriptor.Format = CU_AD_FORMAT_FLOAT;
  descriptor.NumChannels = 1;
  std::vector<CUmipmappedArray> pieces;
  // A level of 1 MiB, and a third more of smaller ones: it has a piece of its own.
  const size_t held = TakeAll<CUmipmappedArray>(
      2 * kMiB, &pieces, [&](CUmipmappedArray* one) { return cuMipmappedArrayCreate(one, &descriptor, 10); });
  for (CUmipmappedArray piece : pieces) CHECK_DRIVER(cuMipmappedArrayDestroy(piece));
  return held;
}

// The heap of malloc() in kernels.
size_t Heap() {
  size_t before = 0;
  CUdeviceptr none = 0;
  CHECK_DRIVER(cuCtxGetLimit(&before, CU_LIMIT_MALLOC_HEAP_SIZE));
  ExpectRefused(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, before + limit_bytes + kMiB));
  CHECK_DRIVER(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, before + limit_bytes - 4 * kMiB));
  ExpectRefused(cuMemAlloc(&none, 6 * kMiB));
  CHECK_DRIVER(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, before));
  return limit_bytes;
}

// A kernel whose threads need so much memory of their own.
CUfunction Kernel(size_t bytes, CUmodule* module) {
  const std::string text =
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry needs(.param .u64 p)\n{\n  .local .align 16 .b8 a[" +
      std::to_string(bytes) +
      "];\n  .reg .u64 %d<3>;\n  .reg .u32 %r<2>;\n  .reg .pred %q;\n  ld.param.u64 %d0, [p];\n  mov.u64 %d1, a;\n"
      "  add.u64 %d2, %d1, %d0;\n  st.local.u32 [%d2], 7;\n  ld.local.u32 %r1, [%d2+64];\n  setp.eq.u64 %q, %d0, 123456;\n"
      "  @%q st.global.u32 [%d0], %r1;\n  ret;\n}\n";
  CUfunction function = nullptr;
  CHECK_DRIVER(cuModuleLoadData(module, text.c_str()));
  CHECK_DRIVER(cuModuleGetFunction(&function, *module, "needs"));
  return function;
}

CUresult Launch(CUfunction kernel, CUstream stream = nullptr) {
  uint64_t offset = 8;
  void* params[] = {&offset};
  return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
}

size_t StackLimit() {
  size_t value = 0;
  CHECK_DRIVER(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  return value;
}

// Local memory that takes `bytes` of the device: for each thread, beside what a context has.
size_t LocalBytes(size_t bytes) {
  int processors = 0, threads = 0;
  CHECK_DRIVER(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  CHECK_DRIVER(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0));
  return StackLimit() + bytes / (static_cast<size_t>(processors) * static_cast<size_t>(threads)) / 16 * 16;
}

// Local memory of kernels: taken with a first launch, and kept until the program lowers the limit.
size_t LocalMemory() {
  const size_t before = StackLimit(), free = Free();
  const size_t all = LocalBytes(limit_bytes), half = LocalBytes(limit_bytes / 2);
  CUmodule modules[3];
  const CUfunction fits = Kernel(half, &modules[0]), more = Kernel(all + 1024, &modules[1]), small = Kernel(128, &modules[2]);
  ExpectRefused(Launch(more));
  CHECK_DRIVER(cuCtxSynchronize());
  EXPECT_EQ(StackLimit(), before);
  CHECK_DRIVER(Launch(fits));
  CHECK_DRIVER(Launch(fits));
  CHECK_DRIVER(cuCtxSynchronize());
  EXPECT_EQ(StackLimit(), half);
  CUdeviceptr block = 0;
  ExpectRefused(cuMemAlloc(&block, free / 2 + 4 * kMiB));
  CHECK_DRIVER(cuMemAlloc(&block, free / 2 - 4 * kMiB));
  ExpectRefused(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, all));
  CHECK_DRIVER(cuMemFree(block));
  CHECK_DRIVER(Launch(small));
  CHECK_DRIVER(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, before));
  EXPECT_EQ(Free(), free);
  // Launched often enough not to be waited for: its refusal comes later then.
  CHECK_DRIVER(cuMemAlloc(&block, free / 2 + 4 * kMiB));
  CUresult launched = Launch(fits);
  if (launched == CUDA_SUCCESS) launched = cuCtxSynchronize();
  ExpectRefused(launched);
  CHECK_DRIVER(cuMemFree(block));
  CHECK_DRIVER(Launch(fits));
  CHECK_DRIVER(cuCtxSynchronize());
  CHECK_DRIVER(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, before));
  for (CUmodule module : modules) CHECK_DRIVER(cuModuleUnload(module));
  return limit_bytes;
}

CUgraph Captured(CUfunction kernel) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK_DRIVER(Launch(kernel, stream));
  CHECK_DRIVER(cuStreamEndCapture(stream, &graph));
  CHECK_DRIVER(cuStreamDestroy(stream));
  return graph;
}

// Local memory of graphs: taken when they are instantiated or changed, and when they are launched after the limit was lowered.
size_t GraphLocalMemory() {
  const size_t before = StackLimit(), free = Free();
  CUmodule modules[3];
  const CUfunction half = Kernel(LocalBytes(limit_bytes / 2), &modules[0]);
  const CUfunction more = Kernel(LocalBytes(limit_bytes) + 1024, &modules[1]), small = Kernel(128, &modules[2]);
  const CUgraph graphs[] = {Captured(half), Captured(more), Captured(small)};
  EXPECT_EQ(Free(), free);
  CUgraphExec exec = nullptr, changed = nullptr;
  ExpectRefused(cuGraphInstantiateWithFlags(&exec, graphs[1], 0));
  CUDA_GRAPH_INSTANTIATE_PARAMS with{};
  ExpectRefused(cuGraphInstantiateWithParams(&exec, graphs[1], &with));
  EXPECT_EQ(static_cast<int>(with.result_out), static_cast<int>(CUDA_GRAPH_INSTANTIATE_ERROR));
  CHECK_DRIVER(cuGraphInstantiateWithFlags(&changed, graphs[2], 0));
  EXPECT_EQ(Free(), free);
  CHECK_DRIVER(cuGraphInstantiateWithFlags(&exec, graphs[0], 0));
  CUdeviceptr block = 0;
  ExpectRefused(cuMemAlloc(&block, free / 2 + 4 * kMiB));
  CHECK_DRIVER(cuGraphLaunch(exec, nullptr));
  CHECK_DRIVER(cuCtxSynchronize());
  CHECK_DRIVER(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, before));
  EXPECT_EQ(Free(), free);
  // There is not so much left now: the launch fails, and nothing else does.
  CHECK_DRIVER(cuMemAlloc(&block, free / 2 + 4 * kMiB));
  CUresult launched = cuGraphLaunch(exec, nullptr);
  if (launched == CUDA_SUCCESS) launched = cuCtxSynchronize();
  ExpectRefused(launched);
  size_t count = 1;
  CUgraphNode node = nullptr;
  CUDA_KERNEL_NODE_PARAMS params{};
  CHECK_DRIVER(cuGraphGetNodes(graphs[2], &node, &count));
  CHECK_DRIVER(cuGraphKernelNodeGetParams(node, &params));
  params.func = half;
  ExpectRefused(cuGraphExecKernelNodeSetParams(changed, node, &params));
  CUgraphExecUpdateResultInfo info{};
  ExpectRefused(cuGraphExecUpdate(changed, graphs[0], &info));
  CHECK_DRIVER(cuGraphLaunch(changed, nullptr));
  CHECK_DRIVER(cuMemFree(block));
  CHECK_DRIVER(cuGraphExecKernelNodeSetParams(changed, node, &params));
  ExpectRefused(cuMemAlloc(&block, free / 2 + 4 * kMiB));
  CHECK_DRIVER(cuGraphLaunch(changed, nullptr));
  CHECK_DRIVER(cuCtxSynchronize());
  CHECK_DRIVER(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, before));
  for (CUgraphExec one : {exec, changed}) CHECK_DRIVER(cuGraphExecDestroy(one));
  for (CUgraph graph : graphs) CHECK_DRIVER(cuGraphDestroy(graph));
  for (CUmodule module : modules) CHECK_DRIVER(cuModuleUnload(module));
  return limit_bytes;
}

std::string WithVariable(size_t bytes) {
  return ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 16 .b8 table[" + std::to_string(bytes) +
         "];\n.visible .entry nothing()\n{\n  ret;\n}\n";
}

size_t Variables() {
  CUmodule module = nullptr, second = nullptr;
  CUdeviceptr address = 0;
  size_t bytes = 0;
  ExpectRefused(cuModuleLoadData(&module, WithVariable(size_t{10} << 30).c_str()));
  const size_t half = limit_bytes / 2;
  CHECK_DRIVER(cuModuleLoadData(&module, WithVariable(half).c_str()));
  CHECK_DRIVER(cuModuleGetGlobal(&address, &bytes, module, "table"));
  EXPECT_EQ(bytes, half);
  ExpectRefused(cuModuleLoadData(&second, WithVariable(half + kMiB).c_str()));
  ExpectRefused(cuMemAlloc(&address, half + 2 * kMiB));
  CHECK_DRIVER(cuModuleUnload(module));
  CHECK_DRIVER(cuMemAlloc(&address, limit_bytes));
  CHECK_DRIVER(cuMemFree(address));
  return limit_bytes;
}

// Memory of an allocation node, launched again and again: taken once, and given back with a trim.
size_t GraphMemory() {
  CUgraph graph = nullptr;
  CUgraphNode allocate = nullptr, release = nullptr;
  CUgraphExec exec = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.bytesize = limit_bytes / 2;
  CHECK_DRIVER(cuGraphCreate(&graph, 0));
  CHECK_DRIVER(cuGraphAddMemAllocNode(&allocate, graph, nullptr, 0, &params));
  CHECK_DRIVER(cuGraphAddMemFreeNode(&release, graph, &allocate, 1, params.dptr));
  CHECK_DRIVER(cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int i = 0; i < 20; ++i) CHECK_DRIVER(cuGraphLaunch(exec, nullptr));
  CHECK_DRIVER(cuCtxSynchronize());
  CUdeviceptr block = 0;
  CHECK_DRIVER(cuMemAlloc(&block, limit_bytes / 2));
  CHECK_DRIVER(cuGraphLaunch(exec, nullptr));
  CHECK_DRIVER(cuCtxSynchronize());
  CHECK_DRIVER(cuDeviceGraphMemTrim(0));
  CUdeviceptr rest = 0;
  CHECK_DRIVER(cuMemAlloc(&rest, limit_bytes / 2));
  // There is nothing left for the graph now: its launch fails, and nothing else does.
  CUresult launched = cuGraphLaunch(exec, nullptr);
  if (launched == CUDA_SUCCESS) launched = cuCtxSynchronize();
  ExpectRefused(launched);
  CHECK_DRIVER(cuMemFree(rest));
  CHECK_DRIVER(cuGraphLaunch(exec, nullptr));
  CHECK_DRIVER(cuCtxSynchronize());
  CHECK_DRIVER(cuMemFree(block));
  CHECK_DRIVER(cuGraphExecDestroy(exec));
  CHECK_DRIVER(cuGraphDestroy(graph));
  CHECK_DRIVER(cuDeviceGraphMemTrim(0));
  return limit_bytes;
}

const std::map<std::string, size_t (*)()> kPaths = {
    {"blocks", Blocks},
    {"small-blocks", SmallBlocks},
    {"pitched", Pitched},
    {"physical", Physical},
    {"mapped", ReleasedButMapped},
    {"exported", Exported},
    {"exported-pool", ExportedPool},
    {"pool", Pool},
    {"destroyed-pool", DestroyedPool},
    {"arrays", Arrays},
    {"volumes", Volumes},
    {"mipmaps", Mipmaps},
    {"heap", Heap},
    {"variables", Variables},
    {"graph-memory", GraphMemory},
    {"local-memory", LocalMemory},
    {"graph-local-memory", GraphLocalMemory},
};

std::string Handle(CUdeviceptr block) {
  CUipcMemHandle handle;
  CHECK_DRIVER(cuIpcGetMemHandle(&handle, block));
  std::string text;
  for (const char byte : handle.reserved) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

CUresult Open(const std::string& text) {
  CUipcMemHandle handle;
  for (size_t i = 0; i < sizeof(handle.reserved); ++i) {
    handle.reserved[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  CUdeviceptr block = 0;
  return cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

int Answer(CUresult result) {
  if (result != CUDA_SUCCESS) ExpectRefused(result);
  return std::puts(result == CUDA_SUCCESS ? "yes" : "no") < 0;
}

}  // namespace

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDeviceTotalMem(&limit_bytes, 0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "open") return Answer(Open(argv[2]));
  if (what == "hold" || what == "share" || what == "try") {
    CUdeviceptr block = 0;
    const CUresult result = cuMemAlloc(&block, std::stoul(argv[2]) * kMiB);
    if (what == "try") return Answer(result);
    CHECK_DRIVER(result);
    std::puts(what == "hold" ? "held" : Handle(block).c_str());
    (void)std::getchar();
    CHECK_DRIVER(cuMemFree(block));
    return 0;
  }
  if (what == "local") {
    CUmodule module = nullptr;
    CHECK_DRIVER(Launch(Kernel(LocalBytes(std::stoul(argv[2]) * kMiB), &module)));
    CHECK_DRIVER(cuCtxSynchronize());
    std::puts("held");
    (void)std::getchar();
    return 0;
  }
  const size_t before = Free();
  for (const auto& [name, run] : kPaths) {
    if (!what.empty() && what != name) continue;
    const size_t held = run();
    std::printf("%s %zu of %zu\n", name.c_str(), held, limit_bytes);
    EXPECT_EQ(Free(), before);
  }
  return 0;
}
