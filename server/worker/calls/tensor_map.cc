// Tensor maps: the driver encodes, the client gets the 128 bytes.

#include <cuda.h>

#include <cstring>
#include <span>

#include "generated/driver_table.h"
#include "generated/messages/tensor_map.h"
#include "generated/server_custom.h"
#include "server/driver/missing_entry.h"
#include "server/worker/call_context.h"

namespace tessera {
namespace {

constexpr uint32_t kRankMax = 5;  // cuTensorMapEncodeTiled

// The driver reads `rank` elements of each array, so a client must have sent as many.
template <typename Request>
bool ArraysFit(const Request& request) {
  return request.rank >= 1 && request.rank <= kRankMax && request.dims.size() == request.rank &&
         request.strides.size() == request.rank - 1 && request.element_strides.size() == request.rank;
}

template <typename Reply>
void Finish(CallContext& call, CUresult result, const CUtensorMap& map) {
  Reply reply;
  reply.tensor_map = std::as_bytes(std::span(&map, 1));
  call.Finish(result, reply);
}

}  // namespace

void Do_cuTensorMapEncodeTiled(CallContext& call, const cuTensorMapEncodeTiledRequest& request) {
  if (call.driver().cuTensorMapEncodeTiled == nullptr) return call.Finish(MissingEntry("cuTensorMapEncodeTiled"));
  if (!ArraysFit(request) || request.box.size() != request.rank) return call.Malformed();
  CUtensorMap map{};
  const CUresult result = call.driver().cuTensorMapEncodeTiled(
      &map, static_cast<CUtensorMapDataType>(request.data_type), request.rank, reinterpret_cast<void*>(request.address),
      request.dims.data(), request.strides.data(), request.box.data(), request.element_strides.data(),
      static_cast<CUtensorMapInterleave>(request.interleave), static_cast<CUtensorMapSwizzle>(request.swizzle),
      static_cast<CUtensorMapL2promotion>(request.l2_promotion),
      static_cast<CUtensorMapFloatOOBfill>(request.out_of_bounds_fill));
  Finish<cuTensorMapEncodeTiledReply>(call, result, map);
}

void Do_cuTensorMapEncodeIm2col(CallContext& call, const cuTensorMapEncodeIm2colRequest& request) {
  if (call.driver().cuTensorMapEncodeIm2col == nullptr) return call.Finish(MissingEntry("cuTensorMapEncodeIm2col"));
  if (!ArraysFit(request) || request.rank < 3 || request.lower.size() != request.rank - 2 ||
      request.upper.size() != request.rank - 2) {
    return call.Malformed();
  }
  CUtensorMap map{};
  const CUresult result = call.driver().cuTensorMapEncodeIm2col(
      &map, static_cast<CUtensorMapDataType>(request.data_type), request.rank, reinterpret_cast<void*>(request.address),
      request.dims.data(), request.strides.data(), request.lower.data(), request.upper.data(), request.channels_per_pixel,
      request.pixels_per_column, request.element_strides.data(), static_cast<CUtensorMapInterleave>(request.interleave),
      static_cast<CUtensorMapSwizzle>(request.swizzle), static_cast<CUtensorMapL2promotion>(request.l2_promotion),
      static_cast<CUtensorMapFloatOOBfill>(request.out_of_bounds_fill));
  Finish<cuTensorMapEncodeIm2colReply>(call, result, map);
}

void Do_cuTensorMapEncodeIm2colWide(CallContext& call, const cuTensorMapEncodeIm2colWideRequest& request) {
  if (call.driver().cuTensorMapEncodeIm2colWide == nullptr) return call.Finish(MissingEntry("cuTensorMapEncodeIm2colWide"));
  if (!ArraysFit(request)) return call.Malformed();
  CUtensorMap map{};
  const CUresult result = call.driver().cuTensorMapEncodeIm2colWide(
      &map, static_cast<CUtensorMapDataType>(request.data_type), request.rank, reinterpret_cast<void*>(request.address),
      request.dims.data(), request.strides.data(), request.lower, request.upper, request.channels_per_pixel,
      request.pixels_per_column, request.element_strides.data(), static_cast<CUtensorMapInterleave>(request.interleave),
      static_cast<CUtensorMapIm2ColWideMode>(request.wide_mode), static_cast<CUtensorMapSwizzle>(request.swizzle),
      static_cast<CUtensorMapL2promotion>(request.l2_promotion),
      static_cast<CUtensorMapFloatOOBfill>(request.out_of_bounds_fill));
  Finish<cuTensorMapEncodeIm2colWideReply>(call, result, map);
}

void Do_cuTensorMapReplaceAddress(CallContext& call, const cuTensorMapReplaceAddressRequest& request) {
  if (call.driver().cuTensorMapReplaceAddress == nullptr) return call.Finish(MissingEntry("cuTensorMapReplaceAddress"));
  CUtensorMap map{};
  if (request.tensor_map.size() != sizeof(map)) return call.Malformed();
  std::memcpy(&map, request.tensor_map.data(), sizeof(map));
  const CUresult result = call.driver().cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(request.address));
  Finish<cuTensorMapReplaceAddressReply>(call, result, map);
}

}  // namespace tessera
