// Copies and sets: memory that one of their ends must not be. Which bytes of a range count is asked by
// memory_ranges.cu.
#include "objects.h"
#include "row.h"

namespace refusals {
namespace {

char host[4096];
const CUdeviceptr kHost = reinterpret_cast<CUdeviceptr>(host);

CUDA_MEMCPY2D Flat(CUmemorytype from_type, CUdeviceptr from, CUmemorytype to_type, CUdeviceptr to) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = from_type;
  copy.dstMemoryType = to_type;
  copy.srcDevice = from;
  copy.srcHost = reinterpret_cast<const void*>(from);
  copy.dstDevice = to;
  copy.dstHost = reinterpret_cast<void*>(to);
  copy.srcPitch = copy.dstPitch = 64;
  copy.WidthInBytes = 64;
  copy.Height = 2;
  return copy;
}

CUDA_MEMCPY3D Deep(const CUDA_MEMCPY2D& flat) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = flat.srcMemoryType;
  copy.srcHost = flat.srcHost;
  copy.srcDevice = flat.srcDevice;
  copy.srcArray = flat.srcArray;
  copy.srcPitch = flat.srcPitch;
  copy.srcHeight = 2;
  copy.dstMemoryType = flat.dstMemoryType;
  copy.dstHost = flat.dstHost;
  copy.dstDevice = flat.dstDevice;
  copy.dstArray = flat.dstArray;
  copy.dstPitch = flat.dstPitch;
  copy.dstHeight = 2;
  copy.WidthInBytes = flat.WidthInBytes;
  copy.Height = flat.Height;
  copy.Depth = 1;
  return copy;
}

CUDA_MEMCPY3D_PEER Between(const CUDA_MEMCPY3D& box, CUcontext from, CUcontext to) {
  CUDA_MEMCPY3D_PEER copy{};
  copy.srcMemoryType = box.srcMemoryType;
  copy.srcHost = box.srcHost;
  copy.srcDevice = box.srcDevice;
  copy.srcArray = box.srcArray;
  copy.srcPitch = box.srcPitch;
  copy.srcHeight = box.srcHeight;
  copy.srcContext = from;
  copy.dstMemoryType = box.dstMemoryType;
  copy.dstHost = box.dstHost;
  copy.dstDevice = box.dstDevice;
  copy.dstArray = box.dstArray;
  copy.dstPitch = box.dstPitch;
  copy.dstHeight = box.dstHeight;
  copy.dstContext = to;
  copy.WidthInBytes = box.WidthInBytes;
  copy.Height = box.Height;
  copy.Depth = box.Depth;
  return copy;
}

CUresult Batch(CUdeviceptr to, CUdeviceptr from, CUstream stream) {
  size_t bytes = 64, first = 0;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  return cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, stream);
}

CUresult BoxBatch(CUdeviceptr to, CUdeviceptr from, CUstream stream) {
  CUDA_MEMCPY3D_BATCH_OP op{};
  op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  op.src.op.ptr.ptr = from;
  op.dst.op.ptr.ptr = to;
  op.extent = {64, 1, 1};
  op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  return cuMemcpy3DBatchAsync(1, &op, 0, stream);
}

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;

const Row kRows[] = {
    // Ordinary memory of the process where the form says device memory.
    {"cuMemcpyHtoD: to ordinary memory", "copies/copy_bytes.cc", kInvalid, [] { return cuMemcpyHtoD(kHost, host + 64, 64); }},
    {"cuMemcpyHtoDAsync: to ordinary memory", "copies/copy_bytes.cc", kInvalid,
     [] { return cuMemcpyHtoDAsync(kHost, host + 64, 64, Stream()); }},
    {"cuMemcpyDtoH: from ordinary memory", "copies/copy_bytes.cc", kInvalid, [] { return cuMemcpyDtoH(host, kHost + 64, 64); }},
    {"cuMemcpyDtoHAsync: from ordinary memory", "copies/copy_bytes.cc", kInvalid,
     [] { return cuMemcpyDtoHAsync(host, kHost + 64, 64, Stream()); }},
    {"cuMemcpyDtoD: to ordinary memory", "copies/copy_bytes.cc", kInvalid, [] { return cuMemcpyDtoD(kHost, Block(), 64); }},
    {"cuMemcpyDtoD: from ordinary memory", "copies/copy_bytes.cc", kInvalid, [] { return cuMemcpyDtoD(Block(), kHost, 64); }},
    {"cuMemcpyDtoDAsync: to ordinary memory", "copies/copy_bytes.cc", kInvalid,
     [] { return cuMemcpyDtoDAsync(kHost, Block(), 64, Stream()); }},
    {"cuMemcpyDtoDAsync: from ordinary memory", "copies/copy_bytes.cc", kInvalid,
     [] { return cuMemcpyDtoDAsync(Block(), kHost, 64, Stream()); }},
    {"cuMemcpyPeer: to ordinary memory", "copies/copy_bytes.cc", kInvalid,
     [] { return cuMemcpyPeer(kHost, Current(), Block(), Current(), 64); }},
    {"cuMemcpyPeer: from ordinary memory", "copies/copy_bytes.cc", kInvalid,
     [] { return cuMemcpyPeer(Block(), Current(), kHost, Current(), 64); }},
    {"cuMemcpyPeerAsync: from ordinary memory", "copies/copy_bytes.cc", kInvalid,
     [] { return cuMemcpyPeerAsync(Block(), Current(), kHost, Current(), 64, Stream()); }},
    {"cuMemcpyPeer: to pinned memory", "calls/copy.cc", CUDA_SUCCESS,
     [] { return cuMemcpyPeer(Pinned().address(), Current(), Block(), Current(), 64); }},
    {"cuMemcpyPeer: unknown context", "calls/copy.cc", CUDA_ERROR_INVALID_CONTEXT,
     [] { return cuMemcpyPeer(Block(), Unknown<CUcontext>(), Block(), Current(), 64); }, kDangerous},
    {"cuMemcpyPeer: destroyed context", "call/call.cc", CUDA_ERROR_CONTEXT_IS_DESTROYED,
     [] { return cuMemcpyPeer(Block(), Gone<OtherContext>(), Block(), Current(), 64); }, kDangerous},
    {"cuMemcpyPeer: context that is not the memory's", "calls/copy.cc", CUDA_SUCCESS,
     [] { return cuMemcpyPeer(Block(), OtherContext(), Block(), Current(), 64); }},

    // Addresses where nothing is.
    {"cuMemcpyHtoD: to nowhere", "copies/copy_bytes.cc", kInvalid, [] { return cuMemcpyHtoD(kNowhere, host, 64); }},
    {"cuMemcpyDtoH: from nowhere", "copies/copy_bytes.cc", kInvalid, [] { return cuMemcpyDtoH(host, kNowhere, 64); }},
    {"cuMemcpy: to freed memory", "copies/copy_bytes.cc", kInvalid, [] { return cuMemcpy(Gone<Block>(), kHost, 64); },
     kDangerous},
    {"cuMemcpy: from freed memory", "copies/copy_bytes.cc", kInvalid, [] { return cuMemcpy(kHost, Gone<Block>(), 64); },
     kDangerous},
    {"cuMemcpy: beyond the end of a block", "copies/copy_bytes.cc", kInvalid, [] { return cuMemcpy(Block(64), kHost, 65); }},
    {"cuMemcpyAsync: beyond the end of a block", "copies/copy_bytes.cc", kInvalid,
     [] { return cuMemcpyAsync(kHost, Block(64), 65, Stream()); }},
    {"cuMemcpy: beyond the end of a variable", "copies/copy_bytes.cc", kInvalid,
     [] { return cuMemcpy(Module().Variable(), kHost, 5); }},
    {"cuMemcpy: beyond the end of pool memory", "copies/copy_bytes.cc", kInvalid, [] { return cuMemcpy(Pooled(64), kHost, 65); }},
    {"cuMemcpy: beyond the end of managed memory", "copies/copy_bytes.cc", kInvalid,
     [] { return cuMemcpy(Managed(), Block(8192), 4097); }},
    {"cuMemcpy: beyond the end of pinned memory", "copies/copy_bytes.cc", kInvalid,
     [] { return cuMemcpy(Pinned().address(), Block(8192), 4097); }},
    {"cuMemcpy: beyond the end of registered memory", "copies/copy_bytes.cc", kInvalid,
     [] {
       Pages pages;
       CHECK_DRIVER(cuMemHostRegister(pages, 4096, 0));
       Block b(8192);
       const CUresult result = cuMemcpy(pages.address(), b, 4097);
       cuMemHostUnregister(pages);
       return result;
     }},
    {"cuMemcpy: into registered memory from before it", "copies/copy_bytes.cc", CUDA_SUCCESS,
     [] {
       Pages pages;
       CHECK_DRIVER(cuMemHostRegister(pages.it + 4096, 4096, 0));
       Block b(8192);
       const CUresult result = cuMemcpy(pages.address(), b, 8192);
       cuMemHostUnregister(pages.it + 4096);
       return result;
     }},
    {"cuMemcpyDtoH: into registered memory from before it", "copies/copy_bytes.cc", CUDA_SUCCESS,
     [] {
       Pages pages;
       CHECK_DRIVER(cuMemHostRegister(pages.it + 4096, 4096, 0));
       Block b(8192);
       const CUresult result = cuMemcpyDtoH(pages, b, 8192);
       cuMemHostUnregister(pages.it + 4096);
       return result;
     }},
    {"cuMemcpyDtoHAsync: beyond the end of registered memory", "copies/copy_bytes.cc", kInvalid,
     [] {
       Pages pages;
       CHECK_DRIVER(cuMemHostRegister(pages, 4096, 0));
       Block b(8192);
       Stream s;
       const CUresult result = cuMemcpyDtoHAsync(pages, b, 4097, s);
       cuStreamSynchronize(s);
       cuMemHostUnregister(pages);
       return result;
     }},
    {"cuMemcpy: reserved addresses", "copies/copy_bytes.cc", kInvalid, [] { return cuMemcpy(Reserved(), kHost, 64); },
     kDangerous},
    {"cuMemcpy: beyond a mapping", "copies/copy_bytes.cc", kInvalid,
     [] { return cuMemcpy(Mapped(), Block(kMapped + 1), kMapped + 1); }},
    {"cuMemcpy: freed pinned memory", "copies/copy_bytes.cc", kInvalid,
     [] {
       Block b;
       CUdeviceptr gone;
       {
         Pinned p;
         gone = p.address();
       }
       return cuMemcpyHtoD(gone, host, 64);
     }},

    // Sets.
    {"cuMemsetD8: ordinary memory", "calls/set.cc", kInvalid, [] { return cuMemsetD8(kHost, 0, 64); }},
    {"cuMemsetD8Async: ordinary memory", "calls/set.cc", kInvalid, [] { return cuMemsetD8Async(kHost, 0, 64, Stream()); }},
    {"cuMemsetD16Async: ordinary memory", "calls/set.cc", kInvalid, [] { return cuMemsetD16Async(kHost, 0, 32, Stream()); }},
    {"cuMemsetD32Async: ordinary memory", "calls/set.cc", kInvalid, [] { return cuMemsetD32Async(kHost, 0, 16, Stream()); }},
    {"cuMemsetD2D8: ordinary memory", "calls/set.cc", kInvalid, [] { return cuMemsetD2D8(kHost, 64, 0, 32, 2); }},
    {"cuMemsetD2D8Async: ordinary memory", "calls/set.cc", kInvalid,
     [] { return cuMemsetD2D8Async(kHost, 64, 0, 32, 2, Stream()); }},
    {"cuMemsetD8: nowhere", "calls/set.cc", kInvalid, [] { return cuMemsetD8(kNowhere, 0, 64); }},
    {"cuMemsetD8: freed memory", "calls/set.cc", kInvalid, [] { return cuMemsetD8(Gone<Block>(), 0, 64); }},
    {"cuMemsetD8: beyond the end of a block", "calls/set.cc", kInvalid, [] { return cuMemsetD8(Block(64), 0, 65); }},
    {"cuMemsetD2D8: last row beyond the end of a block", "calls/set.cc", kInvalid,
     [] { return cuMemsetD2D8(Block(128), 64, 0, 65 - 1, 3); }},
    {"cuMemsetD32: address that is not a multiple of 4", "calls/set.cc", kInvalid, [] { return cuMemsetD32(Block() + 2, 0, 4); }},
    {"cuMemsetD16: address that is not a multiple of 2", "calls/set.cc", kInvalid, [] { return cuMemsetD16(Block() + 1, 0, 4); }},
    {"cuMemsetD8: beyond the end of registered memory", "calls/set.cc", kInvalid,
     [] {
       Pages pages;
       CHECK_DRIVER(cuMemHostRegister(pages, 4096, 0));
       const CUresult result = cuMemsetD8(pages.address(), 0, 4097);
       cuMemHostUnregister(pages);
       return result;
     }},

    // Boxes.
    {"cuMemcpy2D: to ordinary memory that is named device memory", "copies/copy_box.cc", kInvalid,
     [] {
       Block b;
       const auto copy = Flat(CU_MEMORYTYPE_DEVICE, b, CU_MEMORYTYPE_DEVICE, kHost);
       return cuMemcpy2D(&copy);
     }},
    {"cuMemcpy2DAsync: to ordinary memory that is named device memory", "copies/copy_box.cc", kInvalid,
     [] {
       Block b;
       Stream s;
       const auto copy = Flat(CU_MEMORYTYPE_DEVICE, b, CU_MEMORYTYPE_DEVICE, kHost);
       return cuMemcpy2DAsync(&copy, s);
     }},
    {"cuMemcpy2DAsync: from ordinary memory that is named device memory", "copies/copy_box.cc", kInvalid,
     [] {
       Block b;
       Stream s;
       const auto copy = Flat(CU_MEMORYTYPE_DEVICE, kHost, CU_MEMORYTYPE_DEVICE, b);
       return cuMemcpy2DAsync(&copy, s);
     }},
    {"cuMemcpy2D: device memory that is named host memory", "copies/copy_box.cc", CUDA_SUCCESS,
     [] {
       Block b;
       const auto copy = Flat(CU_MEMORYTYPE_HOST, b, CU_MEMORYTYPE_HOST, kHost);
       return cuMemcpy2D(&copy);
     }},
    {"cuMemcpy2D: ordinary memory on both sides", "copies/copy_box.cc", CUDA_SUCCESS,
     [] {
       const auto copy = Flat(CU_MEMORYTYPE_HOST, kHost + 128, CU_MEMORYTYPE_HOST, kHost);
       return cuMemcpy2D(&copy);
     }},
    {"cuMemcpy2D: to freed memory", "copies/copy_box.cc", kInvalid,
     [] {
       const CUdeviceptr gone = Gone<Block>();
       const auto copy = Flat(CU_MEMORYTYPE_HOST, kHost, CU_MEMORYTYPE_DEVICE, gone);
       return cuMemcpy2D(&copy);
     }},
    {"cuMemcpy2D: to freed memory, unified", "copies/copy_box.cc", kInvalid,
     [] {
       const CUdeviceptr gone = Gone<Block>();
       const auto copy = Flat(CU_MEMORYTYPE_HOST, kHost, CU_MEMORYTYPE_UNIFIED, gone);
       return cuMemcpy2D(&copy);
     },
     kDangerous},
    {"cuMemcpy2D: last row beyond the end of a block", "copies/copy_box.cc", kInvalid,
     [] {
       Block b(127);
       const auto copy = Flat(CU_MEMORYTYPE_HOST, kHost, CU_MEMORYTYPE_DEVICE, b);
       return cuMemcpy2D(&copy);
     }},
    {"cuMemcpy2DUnaligned: to ordinary memory that is named device memory", "copies/copy_box.cc", kInvalid,
     [] {
       Block b;
       const auto copy = Flat(CU_MEMORYTYPE_DEVICE, b, CU_MEMORYTYPE_DEVICE, kHost);
       return cuMemcpy2DUnaligned(&copy);
     }},
    {"cuMemcpy3D: to ordinary memory that is named device memory", "copies/copy_box.cc", kInvalid,
     [] {
       Block b;
       const auto copy = Deep(Flat(CU_MEMORYTYPE_DEVICE, b, CU_MEMORYTYPE_DEVICE, kHost));
       return cuMemcpy3D(&copy);
     }},
    {"cuMemcpy3DAsync: from ordinary memory that is named device memory", "copies/copy_box.cc", kInvalid,
     [] {
       Block b;
       Stream s;
       const auto copy = Deep(Flat(CU_MEMORYTYPE_DEVICE, kHost, CU_MEMORYTYPE_DEVICE, b));
       return cuMemcpy3DAsync(&copy, s);
     }},
    {"cuMemcpy3D: level of detail", "copies/copy_box.cc", CUDA_SUCCESS,
     [] {
       Block b;
       auto copy = Deep(Flat(CU_MEMORYTYPE_HOST, kHost, CU_MEMORYTYPE_DEVICE, b));
       copy.dstLOD = 1;
       return cuMemcpy3D(&copy);
     }},
    {"cuMemcpy3D: unknown memory type", "copies/copy_box.cc", kInvalid,
     [] {
       Block b;
       auto copy = Deep(Flat(CU_MEMORYTYPE_HOST, kHost, CU_MEMORYTYPE_DEVICE, b));
       copy.dstMemoryType = static_cast<CUmemorytype>(7);
       return cuMemcpy3D(&copy);
     }},
    {"cuMemcpyDtoA: from ordinary memory", "copies/copy_box.cc", kInvalid, [] { return cuMemcpyDtoA(Array(), 0, kHost, 16); }},
    {"cuMemcpyAtoD: to ordinary memory", "copies/copy_box.cc", kInvalid, [] { return cuMemcpyAtoD(kHost, Array(), 0, 16); }},
    {"cuMemcpyHtoA: destroyed array", "call/call.cc", CUDA_ERROR_INVALID_HANDLE,
     [] {
       const CUarray gone = Gone<Array>();
       return cuMemcpyHtoA(gone, 0, host, 16);
     },
     kDangerous},
    {"cuMemcpyHtoA: unknown array", "call/call.cc", CUDA_ERROR_INVALID_HANDLE,
     [] { return cuMemcpyHtoA(Unknown<CUarray>(), 0, host, 16); }, kDangerous},
    {"cuMemcpy3DPeer: array of another context", "calls/copy_batch.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       Block b;
       const CUarray array = other.In([] {
         const CUDA_ARRAY_DESCRIPTOR d{64, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1};
         CUarray made;
         CHECK_DRIVER(cuArrayCreate(&made, &d));
         return made;
       });
       auto flat = Flat(CU_MEMORYTYPE_DEVICE, b, CU_MEMORYTYPE_ARRAY, 0);
       flat.dstArray = array;
       const auto copy = Between(Deep(flat), Current(), other);
       const CUresult result = cuMemcpy3DPeer(&copy);
       cuArrayDestroy(array);
       return result;
     }},
    {"cuMemcpy3DPeer: array of the current context, another named", "calls/copy_batch.cc", CUDA_SUCCESS,
     [] {
       OtherContext other;
       Block b;
       const CUDA_ARRAY_DESCRIPTOR d{64, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1};
       CUarray array;
       CHECK_DRIVER(cuArrayCreate(&array, &d));
       auto flat = Flat(CU_MEMORYTYPE_DEVICE, b, CU_MEMORYTYPE_ARRAY, 0);
       flat.dstArray = array;
       const auto copy = Between(Deep(flat), other, other);
       const CUresult result = cuMemcpy3DPeer(&copy);
       cuArrayDestroy(array);
       return result;
     }},
    {"cuMemcpy3DPeer: array of the current context", "calls/copy_batch.cc", CUDA_SUCCESS,
     [] {
       Block b;
       const CUDA_ARRAY_DESCRIPTOR d{64, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1};
       CUarray array;
       CHECK_DRIVER(cuArrayCreate(&array, &d));
       auto flat = Flat(CU_MEMORYTYPE_DEVICE, b, CU_MEMORYTYPE_ARRAY, 0);
       flat.dstArray = array;
       const auto copy = Between(Deep(flat), Current(), Current());
       const CUresult result = cuMemcpy3DPeer(&copy);
       cuArrayDestroy(array);
       return result;
     }},
    {"cuMemcpy3DPeer: destroyed context", "calls/copy_batch.cc", CUDA_ERROR_CONTEXT_IS_DESTROYED,
     [] {
       Block b;
       const CUcontext gone = Gone<OtherContext>();
       const auto copy = Between(Deep(Flat(CU_MEMORYTYPE_DEVICE, b, CU_MEMORYTYPE_DEVICE, b + 1024)), gone, Current());
       return cuMemcpy3DPeer(&copy);
     },
     kDangerous},
    {"cuMemcpy3DPeerAsync: to ordinary memory", "copies/copy_box.cc", kInvalid,
     [] {
       Block b;
       Stream s;
       const auto copy = Between(Deep(Flat(CU_MEMORYTYPE_DEVICE, b, CU_MEMORYTYPE_DEVICE, kHost)), Current(), Current());
       return cuMemcpy3DPeerAsync(&copy, s);
     }},
    {"cuMemcpy3DPeerAsync: captured stream", "calls/copy_batch.cc", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
     [] {
       Block b;
       Capture c;
       const auto copy = Between(Deep(Flat(CU_MEMORYTYPE_DEVICE, b, CU_MEMORYTYPE_DEVICE, b + 1024)), Current(), Current());
       return cuMemcpy3DPeerAsync(&copy, c);
     }},

    // Batches.
    {"cuMemcpyBatchAsync: the legacy stream", "calls/copy_batch.cc", kInvalid,
     [] {
       Block b;
       return Batch(b, b + 1024, nullptr);
     }},
    {"cuMemcpyBatchAsync: the legacy stream by its name", "calls/copy_batch.cc", kInvalid,
     [] {
       Block b;
       return Batch(b, b + 1024, CU_STREAM_LEGACY);
     }},
    {"cuMemcpyBatchAsync: the stream of the thread", "calls/copy_batch.cc", CUDA_SUCCESS,
     [] {
       Block b;
       return Batch(b, b + 1024, CU_STREAM_PER_THREAD);
     }},
    {"cuMemcpyBatchAsync: captured stream", "calls/copy_batch.cc", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
     [] {
       Block b;
       Capture c;
       return Batch(b, b + 1024, c);
     }},
    {"cuMemcpyBatchAsync: the capture after that", "calls/copy_batch.cc", CUDA_SUCCESS,
     [] {
       Block b;
       Capture c;
       Batch(b, b + 1024, c);
       return cuMemsetD8Async(b, 0, 16, c);
     }},
    {"cuMemcpyBatchAsync: beyond the end of a block", "calls/copy_batch.cc", kInvalid,
     [] { return Batch(Block(64) + 1, kHost, Stream()); }},
    {"cuMemcpyBatchAsync: freed memory", "calls/copy_batch.cc", kInvalid, [] { return Batch(Gone<Block>(), kHost, Stream()); },
     kDangerous},
    {"cuMemcpyBatchAsync: ordinary memory on both sides", "calls/copy_batch.cc", CUDA_SUCCESS,
     [] { return Batch(kHost, kHost + 1024, Stream()); }},
    {"cuMemcpy3DBatchAsync: the legacy stream", "calls/copy_batch.cc", kInvalid,
     [] {
       Block b;
       return BoxBatch(b, b + 1024, nullptr);
     }},
    {"cuMemcpy3DBatchAsync: captured stream", "calls/copy_batch.cc", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
     [] {
       Block b;
       Capture c;
       return BoxBatch(b, b + 1024, c);
     }},
    {"cuMemcpy3DBatchAsync: beyond the end of a block", "copies/copy_box.cc", kInvalid,
     [] { return BoxBatch(Block(64) + 1, kHost, Stream()); }},
};

}  // namespace

std::span<const Row> CopyRows() { return kRows; }

}  // namespace refusals
