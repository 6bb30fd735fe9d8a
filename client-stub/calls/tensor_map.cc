// Tensor maps are values that a kernel sees: the server's driver encodes them and its 128 bytes are returned.

#include <cuda.h>

#include <cstring>
#include <span>

#include "client-stub/call/call.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/session/client.h"
#include "generated/client_custom.h"
#include "generated/messages/tensor_map.h"

namespace tessera {
namespace {

// The driver's bound on the rank of a tensor (cuTensorMapEncodeTiled: 1 to 5); more is refused before any array is read.
constexpr unsigned kRankMax = 5;

template <typename Request, typename Reply>
CUresult Encode(Call& call, CUtensorMap* tensorMap, const Request& request) {
  if (!call.session().memory().mirrors().Reach(call, request.address) && !call.ok()) return call.result();
  Reply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result != CUDA_SUCCESS) return result;
  if (reply.tensor_map.size() != sizeof(*tensorMap)) return call.Fail(CUDA_ERROR_UNKNOWN);
  std::memcpy(tensorMap, reply.tensor_map.data(), sizeof(*tensorMap));
  return CUDA_SUCCESS;
}

// The fields that the three encoders share. False when an argument is one that the driver refuses.
template <typename Request>
bool Common(Request& request, const CUtensorMap* tensorMap, CUtensorMapDataType type, unsigned rank, void* address,
            const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* element_strides) {
  if (tensorMap == nullptr || rank == 0 || rank > kRankMax || dims == nullptr || element_strides == nullptr ||
      (rank > 1 && strides == nullptr)) {
    return false;
  }
  request.data_type = type;
  request.rank = rank;
  request.address = reinterpret_cast<uint64_t>(address);
  request.dims.Borrow(dims, rank);
  request.strides.Borrow(strides, rank - 1);
  request.element_strides.Borrow(element_strides, rank);
  return true;
}

template <typename Request>
void Modes(Request& request, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
           CUtensorMapFloatOOBfill fill) {
  request.interleave = interleave;
  request.swizzle = swizzle;
  request.l2_promotion = promotion;
  request.out_of_bounds_fill = fill;
}

}  // namespace

CUresult Custom_cuTensorMapEncodeTiled(Call& call, CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                       cuuint32_t tensorRank, void* globalAddress, const cuuint64_t* globalDim,
                                       const cuuint64_t* globalStrides, const cuuint32_t* boxDim,
                                       const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
                                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                       CUtensorMapFloatOOBfill oobFill) {
  if (!call.ok()) return call.result();
  cuTensorMapEncodeTiledRequest request;
  if (boxDim == nullptr ||
      !Common(request, tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides, elementStrides)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  request.box.Borrow(boxDim, tensorRank);
  Modes(request, interleave, swizzle, l2Promotion, oobFill);
  return Encode<cuTensorMapEncodeTiledRequest, cuTensorMapEncodeTiledReply>(call, tensorMap, request);
}

CUresult Custom_cuTensorMapEncodeIm2col(Call& call, CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                        cuuint32_t tensorRank, void* globalAddress, const cuuint64_t* globalDim,
                                        const cuuint64_t* globalStrides, const int* pixelBoxLowerCorner,
                                        const int* pixelBoxUpperCorner, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
                                        const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                        CUtensorMapFloatOOBfill oobFill) {
  if (!call.ok()) return call.result();
  cuTensorMapEncodeIm2colRequest request;
  if (pixelBoxLowerCorner == nullptr || pixelBoxUpperCorner == nullptr || tensorRank < 3 ||
      !Common(request, tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides, elementStrides)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  // The corners have one number per spatial dimension, two fewer than the rank.
  request.lower.Borrow(pixelBoxLowerCorner, tensorRank - 2);
  request.upper.Borrow(pixelBoxUpperCorner, tensorRank - 2);
  request.channels_per_pixel = channelsPerPixel;
  request.pixels_per_column = pixelsPerColumn;
  Modes(request, interleave, swizzle, l2Promotion, oobFill);
  return Encode<cuTensorMapEncodeIm2colRequest, cuTensorMapEncodeIm2colReply>(call, tensorMap, request);
}

CUresult Custom_cuTensorMapEncodeIm2colWide(Call& call, CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                            cuuint32_t tensorRank, void* globalAddress, const cuuint64_t* globalDim,
                                            const cuuint64_t* globalStrides, int pixelBoxLowerCornerWidth,
                                            int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
                                            const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
                                            CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                            CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill) {
  if (!call.ok()) return call.result();
  cuTensorMapEncodeIm2colWideRequest request;
  if (!Common(request, tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides, elementStrides)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  request.lower = pixelBoxLowerCornerWidth;
  request.upper = pixelBoxUpperCornerWidth;
  request.channels_per_pixel = channelsPerPixel;
  request.pixels_per_column = pixelsPerColumn;
  request.wide_mode = mode;
  Modes(request, interleave, swizzle, l2Promotion, oobFill);
  return Encode<cuTensorMapEncodeIm2colWideRequest, cuTensorMapEncodeIm2colWideReply>(call, tensorMap, request);
}

CUresult Custom_cuTensorMapReplaceAddress(Call& call, CUtensorMap* tensorMap, void* globalAddress) {
  if (!call.ok()) return call.result();
  if (tensorMap == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  cuTensorMapReplaceAddressRequest request;
  request.tensor_map = std::as_bytes(std::span(tensorMap, 1));
  request.address = reinterpret_cast<uint64_t>(globalAddress);
  return Encode<cuTensorMapReplaceAddressRequest, cuTensorMapReplaceAddressReply>(call, tensorMap, request);
}

}  // namespace tessera
