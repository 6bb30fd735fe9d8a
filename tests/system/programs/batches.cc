// Batches of copies and boxes between contexts, over device, pinned, registered and ordinary memory.
#include <cuda.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "check.h"

static int* Private(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<int*>(memory);
}
static CUdeviceptr Number(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
#define EXPECT_CODE(call, code) EXPECT_EQ(static_cast<int>(call), static_cast<int>(code))

// Boxes into an array and out of it, where it is of the current context and where it is of another one of the device.
static void CopyArraysOf(CUcontext context, CUstream stream, CUdeviceptr device, int* plain, int* result) {
  const unsigned width = 16, height = 4;
  const size_t bytes = width * height * sizeof(int);
  CUcontext other;
  CHECK_DRIVER(cuCtxCreate(&other, nullptr, 0, 0));
  for (CUcontext owner : {context, other}) {
    CHECK_DRIVER(cuCtxSetCurrent(owner));
    const CUDA_ARRAY_DESCRIPTOR descriptor{width, height, CU_AD_FORMAT_SIGNED_INT32, 1};
    CUarray array;
    CHECK_DRIVER(cuArrayCreate(&array, &descriptor));
    CHECK_DRIVER(cuCtxSetCurrent(context));
    for (unsigned i = 0; i < width * height; ++i) plain[i] = static_cast<int>(i + (owner == other ? 1000 : 0));
    CHECK_DRIVER(cuMemcpyHtoD(device, plain, bytes));
    CUDA_MEMCPY3D_PEER to{};
    to.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    to.srcDevice = device;
    to.srcContext = context;
    to.srcPitch = width * sizeof(int);
    to.srcHeight = height;
    to.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    to.dstArray = array;
    to.dstContext = owner;
    to.WidthInBytes = width * sizeof(int);
    to.Height = height;
    to.Depth = 1;
    CHECK_DRIVER(cuMemcpy3DPeerAsync(&to, stream));
    CHECK_DRIVER(cuStreamSynchronize(stream));
    CUDA_MEMCPY3D_PEER from{};
    from.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    from.srcArray = array;
    from.srcContext = owner;
    from.dstMemoryType = CU_MEMORYTYPE_HOST;
    from.dstHost = result;
    from.dstPitch = to.srcPitch;
    from.dstHeight = height;
    from.WidthInBytes = to.WidthInBytes;
    from.Height = height;
    from.Depth = 1;
    std::memset(result, 0, bytes);
    CHECK_DRIVER(cuMemcpy3DPeer(&from));
    EXPECT_EQ(std::memcmp(result, plain, bytes), 0);
    CHECK_DRIVER(cuArrayDestroy(array));
  }
  CHECK_DRIVER(cuCtxDestroy(other));
  CHECK_DRIVER(cuCtxSetCurrent(context));
}

int main() {
  CUcontext context;
  CHECK_DRIVER(cuInit(0));
  CHECK_DRIVER(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_DRIVER(cuCtxSetCurrent(context));
  CUstream stream;
  CHECK_DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const int n = 100'000;
  const size_t bytes = n * sizeof(int);
  int *pinned, *registered = Private(bytes), *plain = Private(bytes), *result = Private(bytes);
  CHECK_DRIVER(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), bytes, 0));
  CHECK_DRIVER(cuMemHostRegister(registered, bytes, 0));
  CUdeviceptr device[4];
  for (CUdeviceptr& one : device) CHECK_DRIVER(cuMemAlloc(&one, bytes));

  for (CUmemcpySrcAccessOrder order :
       {CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL, CU_MEMCPY_SRC_ACCESS_ORDER_ANY}) {
    for (int i = 0; i < n; ++i) {
      pinned[i] = i + 1;
      registered[i] = i + 2;
      plain[i] = i + 3;
    }
    CUdeviceptr to[] = {device[0], device[1], device[2]};
    CUdeviceptr from[] = {Number(pinned), Number(registered), Number(plain)};
    size_t sizes[] = {bytes, bytes, bytes};
    CUmemcpyAttributes attributes{};
    attributes.srcAccessOrder = order;
    size_t first = 0;
    CHECK_DRIVER(cuMemcpyBatchAsync(to, from, sizes, 3, &attributes, &first, 1, stream));
    if (order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL) {
      std::memset(pinned, 0, bytes);
      std::memset(registered, 0, bytes);
      std::memset(plain, 0, bytes);
    }
    CUdeviceptr back[] = {Number(pinned), Number(registered), Number(plain), device[3]};
    CUdeviceptr held[] = {device[2], device[0], device[1], device[2]};
    size_t all[] = {bytes, bytes, bytes, bytes};
    CUmemcpyAttributes two[2] = {attributes, attributes};
    two[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    size_t firsts[] = {0, 2};
    CHECK_DRIVER(cuMemcpyBatchAsync(back, held, all, 4, two, firsts, 2, stream));
    CHECK_DRIVER(cuStreamSynchronize(stream));
    CHECK_DRIVER(cuMemcpyDtoH(result, device[3], bytes));
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(pinned[i], i + 3);
      EXPECT_EQ(registered[i], i + 1);
      EXPECT_EQ(plain[i], i + 2);
      EXPECT_EQ(result[i], i + 3);
    }
    // What is wrong copies nothing.
    sizes[1] = 0;
    EXPECT_CODE(cuMemcpyBatchAsync(to, from, sizes, 3, &attributes, &first, 1, stream), CUDA_ERROR_INVALID_VALUE);
    sizes[1] = bytes;
    EXPECT_CODE(cuMemcpyBatchAsync(to, from, sizes, 3, &attributes, &first, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CODE(cuMemcpyBatchAsync(to, from, sizes, 0, &attributes, &first, 1, stream), CUDA_ERROR_INVALID_VALUE);
    first = 1;
    EXPECT_CODE(cuMemcpyBatchAsync(to, from, sizes, 3, &attributes, &first, 1, stream), CUDA_ERROR_INVALID_VALUE);
  }
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  size_t first = 0, some = 64;
  CUgraph graph = nullptr;
  CHECK_DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CODE(cuMemcpyBatchAsync(&device[0], &device[1], &some, 1, &attributes, &first, 1, stream),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK_DRIVER(cuStreamEndCapture(stream, &graph));
  CHECK_DRIVER(cuGraphDestroy(graph));

  // Boxes: 5 slices of 7 rows of 40 ints, out of longer rows and higher slices.
  const size_t width = 40, height = 7, depth = 5, row = 64, rows = 9;
  for (int i = 0; i < n; ++i) registered[i] = i;
  CUDA_MEMCPY3D_BATCH_OP ops[2];
  std::memset(ops, 0, sizeof(ops));
  for (CUDA_MEMCPY3D_BATCH_OP& op : ops) {
    op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.extent = {width * sizeof(int), height, depth};
    op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  }
  ops[0].src.op.ptr = {Number(registered), row * sizeof(int), rows, {}};
  ops[0].dst.op.ptr = {device[0], 0, 0, {}};
  ops[1].src.op.ptr = {Number(registered + 11), row * sizeof(int), rows, {}};
  ops[1].dst.op.ptr = {device[1], 0, 0, {}};
  CHECK_DRIVER(cuMemcpy3DBatchAsync(2, ops, 0, stream));
  CUDA_MEMCPY3D_PEER peer;
  std::memset(&peer, 0, sizeof(peer));
  peer.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  peer.srcDevice = device[1];
  peer.srcContext = context;
  peer.srcPitch = width * sizeof(int);
  peer.srcHeight = height;
  peer.dstMemoryType = CU_MEMORYTYPE_HOST;
  peer.dstHost = plain;
  peer.dstPitch = row * sizeof(int);
  peer.dstHeight = rows;
  peer.WidthInBytes = width * sizeof(int);
  peer.Height = height;
  peer.Depth = depth;
  std::memset(plain, 0xff, bytes);
  CHECK_DRIVER(cuMemcpy3DPeerAsync(&peer, stream));
  CHECK_DRIVER(cuStreamSynchronize(stream));
  CHECK_DRIVER(cuMemcpyDtoH(result, device[0], width * height * depth * sizeof(int)));
  for (size_t z = 0, i = 0; z < depth; ++z) {
    for (size_t y = 0; y < height; ++y) {
      for (size_t x = 0; x < row; ++x) {
        const size_t at = (z * rows + y) * row + x;
        if (x < width) EXPECT_EQ(result[i], static_cast<int>(at));
        if (x < width) ++i;
        EXPECT_EQ(plain[at], x < width ? static_cast<int>(at + 11) : -1);
      }
    }
  }
  ops[0].src.op.ptr.rowLength = width;
  EXPECT_CODE(cuMemcpy3DBatchAsync(2, ops, 0, stream), CUDA_ERROR_INVALID_VALUE);
  peer.srcMemoryType = CU_MEMORYTYPE_HOST;
  peer.srcHost = registered;
  peer.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  peer.dstDevice = device[2];
  peer.dstContext = context;
  CHECK_DRIVER(cuMemcpy3DPeer(&peer));

  // Peer copies over host memory, and sets of registered memory, in stream order.
  CHECK_DRIVER(cuMemcpyPeerAsync(device[0], context, Number(registered), context, bytes, stream));
  CHECK_DRIVER(cuMemsetD32Async(Number(registered), 77, n, stream));
  CHECK_DRIVER(cuMemcpyPeerAsync(device[1], context, Number(registered), context, bytes, stream));
  CHECK_DRIVER(cuStreamSynchronize(stream));
  CHECK_DRIVER(cuMemcpyPeer(Number(pinned), context, device[0], nullptr, bytes));
  for (int i = 0; i < n; ++i) EXPECT_EQ(pinned[i], i);
  CHECK_DRIVER(cuMemcpyPeer(Number(registered), context, device[0], context, bytes));
  for (int i = 0; i < n; ++i) EXPECT_EQ(registered[i], i);
  CHECK_DRIVER(cuMemcpyPeer(device[2], context, device[1], context, bytes));
  CHECK_DRIVER(cuMemcpyDtoH(plain, device[2], bytes));
  for (int i = 0; i < n; ++i) EXPECT_EQ(plain[i], 77);
  EXPECT_CODE(cuMemcpyPeer(Number(plain), context, device[1], context, bytes), CUDA_ERROR_INVALID_VALUE);
  CHECK_DRIVER(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CODE(cuMemcpyPeerAsync(device[0], context, device[1], context, bytes, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_CODE(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK_DRIVER(cuMemsetD8(Number(registered), 1, 16));
  EXPECT_EQ(registered[3], 0x01010101);
  CHECK_DRIVER(cuMemHostUnregister(registered));
  CopyArraysOf(context, stream, device[0], plain, result);
  CHECK_DRIVER(cuCtxSynchronize());
  std::puts("ok");
  return 0;
}
