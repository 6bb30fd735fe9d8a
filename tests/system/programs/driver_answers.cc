// Answers of driver 580 (H200) to calls at the edge of what is right: memory that is registered or not, attributes of managed
// memory, names of nothing, and nodes that name no context.
#include <cuda.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "check.h"

namespace {

constexpr size_t kPage = 4096;

void Registrations() {
  auto* const pages = static_cast<char*>(mmap(nullptr, 16 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CHECK_DRIVER(cuMemHostRegister(pages, 4 * kPage, 0));
  for (const size_t inside : {size_t{1}, kPage, 4 * kPage - 1}) {
    EXPECT_EQ(cuMemHostUnregister(pages + inside), CUDA_ERROR_INVALID_VALUE);
  }
  for (const size_t outside : {4 * kPage, 8 * kPage}) {
    EXPECT_EQ(cuMemHostUnregister(pages + outside), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  }
  EXPECT_EQ(cuMemHostUnregister(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister(pages, 4 * kPage, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuMemHostRegister(pages + kPage, kPage, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuMemHostRegister(pages + 2 * kPage, 4 * kPage, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK_DRIVER(cuMemHostRegister(pages + 4 * kPage, kPage, 0));
  CHECK_DRIVER(cuMemHostUnregister(pages));
  EXPECT_EQ(cuMemHostUnregister(pages), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK_DRIVER(cuMemHostUnregister(pages + 4 * kPage));

  // Neither begins a page.
  CHECK_DRIVER(cuMemHostRegister(pages + 100, 100, 0));
  CHECK_DRIVER(cuMemHostRegister(pages + 300, 100, 0));
  EXPECT_EQ(cuMemHostUnregister(pages), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuMemHostUnregister(pages + 199), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostUnregister(pages + 200), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  CHECK_DRIVER(cuMemHostUnregister(pages + 100));
  CHECK_DRIVER(cuMemHostUnregister(pages + 300));

  void* pinned = nullptr;
  CUdeviceptr device = 0;
  CHECK_DRIVER(cuMemHostAlloc(&pinned, 2 * kPage, 0));
  CHECK_DRIVER(cuMemAlloc(&device, kPage));
  EXPECT_EQ(cuMemHostUnregister(pinned), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostUnregister(static_cast<char*>(pinned) + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostUnregister(reinterpret_cast<void*>(device)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister(pinned, kPage, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister(reinterpret_cast<void*>(device), kPage, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_DRIVER(cuMemFreeHost(pinned));
  CHECK_DRIVER(cuMemFree(device));
  munmap(pages + 8 * kPage, kPage);
  EXPECT_EQ(cuMemHostRegister(pages + 6 * kPage, 4 * kPage, 0), CUDA_ERROR_INVALID_VALUE);
}

unsigned SyncMemops(CUdeviceptr address) {
  unsigned value = 7;
  CHECK_DRIVER(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
  return value;
}

void Attributes() {
  CUdeviceptr managed = 0, pooled = 0, block = 0;
  void* pinned = nullptr;
  CHECK_DRIVER(cuMemAllocManaged(&managed, 5000, CU_MEM_ATTACH_GLOBAL));
  CHECK_DRIVER(cuMemAllocAsync(&pooled, 5000, nullptr));
  CHECK_DRIVER(cuMemAlloc(&block, 5000));
  CHECK_DRIVER(cuMemHostAlloc(&pinned, 5000, 0));
  CHECK_DRIVER(cuCtxSynchronize());
  const auto host = reinterpret_cast<CUdeviceptr>(pinned);
  EXPECT_EQ(SyncMemops(host), 0u);
  EXPECT_EQ(SyncMemops(managed), 1u);
  for (const CUdeviceptr address : {managed, pooled, block, host}) {
    for (const unsigned value : {1u, 0u, 1u}) {
      CHECK_DRIVER(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
      EXPECT_EQ(SyncMemops(address), value);
    }
  }
  const unsigned one = 1;
  EXPECT_EQ(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, reinterpret_cast<CUdeviceptr>(&one)),
            CUDA_ERROR_INVALID_VALUE);

  unsigned sync = 7, access = 7, direct = 7;
  auto pool = reinterpret_cast<CUmemoryPool>(&sync);
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
                                 CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE};
  void* values[] = {&sync, &access, &pool, &direct};
  CHECK_DRIVER(cuPointerGetAttributes(4, names, values, managed));
  EXPECT_EQ(sync, 1u);
  EXPECT_EQ(access, unsigned{CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE});
  EXPECT_EQ(pool == nullptr, true);
  EXPECT_EQ(direct, 0u);

  CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens{9, 9};
  // One driver writes no tokens, another zeros.
  CHECK_DRIVER(cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, block));
  EXPECT_EQ(tokens.p2pToken == 9 || tokens.p2pToken == 0, true);
  CHECK_DRIVER(cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, managed));
  EXPECT_EQ(tokens.p2pToken, 0u);
  EXPECT_EQ(cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, host), CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute name = CU_POINTER_ATTRIBUTE_P2P_TOKENS;
  void* value = &tokens;
  EXPECT_EQ(cuPointerGetAttributes(1, &name, &value, block), CUDA_ERROR_INVALID_VALUE);
  CHECK_DRIVER(cuMemFree(managed));
  CHECK_DRIVER(cuMemFree(block));
  CHECK_DRIVER(cuMemFreeAsync(pooled, nullptr));
  CHECK_DRIVER(cuMemFreeHost(pinned));
}

void Names() {
  const char* name = nullptr;
  EXPECT_EQ(cuKernelGetName(&name, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncGetName(&name, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuKernelGetName(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

// `context`: null means the one that is current.
void Nodes(CUcontext context) {
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraphNode set = nullptr, copy = nullptr;
  CUgraphExec exec = nullptr;
  CHECK_DRIVER(cuMemAlloc(&memory, 4096));
  CHECK_DRIVER(cuMemsetD8(memory, 1, 4096));
  CHECK_DRIVER(cuGraphCreate(&graph, 0));
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.memset.dst = memory;
  params.memset.elementSize = 1;
  params.memset.value = 3;
  params.memset.width = 64;
  params.memset.height = 1;
  params.memset.ctx = context;
  CHECK_DRIVER(cuGraphAddNode(&set, graph, nullptr, nullptr, 0, &params));
  params.memset.value = 4;
  CHECK_DRIVER(cuGraphNodeSetParams(set, &params));
  CUgraphNodeParams of_copy{};
  of_copy.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  CUDA_MEMCPY3D& box = of_copy.memcpy.copyParams;
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = memory;
  box.dstDevice = memory + 1024;
  box.WidthInBytes = 64;
  box.Height = box.Depth = 1;
  of_copy.memcpy.copyCtx = context;
  CHECK_DRIVER(cuGraphAddNode(&copy, graph, &set, nullptr, 1, &of_copy));
  CHECK_DRIVER(cuGraphNodeSetParams(copy, &of_copy));
  CHECK_DRIVER(cuGraphInstantiate(&exec, graph, 0));
  params.memset.value = 5;
  CHECK_DRIVER(cuGraphExecNodeSetParams(exec, set, &params));
  CHECK_DRIVER(cuGraphExecNodeSetParams(exec, copy, &of_copy));
  CHECK_DRIVER(cuGraphLaunch(exec, nullptr));
  CHECK_DRIVER(cuCtxSynchronize());
  unsigned char result[64];
  CHECK_DRIVER(cuMemcpyDtoH(result, memory + 1024, sizeof(result)));
  for (const unsigned char byte : result) EXPECT_EQ(byte, 5);
  of_copy.memcpy.reserved = 1;
  EXPECT_EQ(cuGraphAddNode(&copy, graph, nullptr, nullptr, 0, &of_copy), CUDA_ERROR_INVALID_VALUE);
  of_copy.memcpy.reserved = 0;
  of_copy.memcpy.flags = 1;
  EXPECT_EQ(cuGraphAddNode(&copy, graph, nullptr, nullptr, 0, &of_copy), CUDA_ERROR_INVALID_VALUE);
  CHECK_DRIVER(cuGraphExecDestroy(exec));
  CHECK_DRIVER(cuGraphDestroy(graph));
  CHECK_DRIVER(cuMemFree(memory));
}

}  // namespace

int main() {
  CUcontext context = nullptr;
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  Registrations();
  Attributes();
  Names();
  Nodes(context);
  Nodes(nullptr);
  std::printf("ok\n");
}
