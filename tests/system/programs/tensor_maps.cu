// Tensor maps: a tile of a matrix loaded by the copy engine of the multiprocessor through a map that the driver encoded.
// Needs a device of compute capability 9.0, and is not for the emulated GPU: the program says so and ends on others.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "check.h"

constexpr int kRows = 64, kColumns = 128, kTileRows = 16, kTileColumns = 32;

__global__ void load_tile(const __grid_constant__ CUtensorMap map, int column, int row, int* out) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) int tile[kTileRows * kTileColumns];
  __shared__ alignas(8) uint64_t barrier;
  const auto barrier_at = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  const auto tile_at = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_at));
    asm volatile("fence.proxy.async.shared::cta;");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_at),
                 "r"(static_cast<uint32_t>(sizeof(tile))));
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(tile_at),
        "l"(&map), "r"(column), "r"(row), "r"(barrier_at)
        : "memory");
  }
  __syncthreads();
  asm volatile(
      "{\n.reg .pred done;\nwait:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n@!done bra wait;\n}" ::"r"(barrier_at)
      : "memory");
  for (int i = threadIdx.x; i < kTileRows * kTileColumns; i += blockDim.x) out[i] = tile[i];
#endif
}

int main() {
  int major = 0;
  CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  CHECK_CUDA(cudaFree(nullptr));
  if (major < 9) {
    std::printf("no tensor maps on this device\nok\n");
    return 0;
  }
  std::vector<int> matrix(kRows * kColumns), tile(kTileRows * kTileColumns);
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<int>(3 * i + 1);
  int *device, *out;
  CHECK_CUDA(cudaMalloc(&device, matrix.size() * sizeof(int)));
  CHECK_CUDA(cudaMalloc(&out, tile.size() * sizeof(int)));
  CHECK_CUDA(cudaMemcpy(device, matrix.data(), matrix.size() * sizeof(int), cudaMemcpyHostToDevice));
  CUtensorMap map;
  const cuuint64_t sizes[] = {kColumns, kRows}, strides[] = {kColumns * sizeof(int)};
  const cuuint32_t box[] = {kTileColumns, kTileRows}, steps[] = {1, 1};
  const CUresult encoded = cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, device, sizes, strides, box, steps,
                                                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (encoded == CUDA_ERROR_NOT_SUPPORTED) {
    std::printf("no tensor maps on this device\nok\n");
    return 0;
  }
  CHECK_DRIVER(encoded);
  const struct {
    int column, row;
  } places[] = {{0, 0}, {64, 32}, {112, 56}};  // the last one hangs over two edges: zeros are read there
  for (const auto& place : places) {
    load_tile<<<1, 128>>>(map, place.column, place.row, out);
    CHECK_CUDA(cudaMemcpy(tile.data(), out, tile.size() * sizeof(int), cudaMemcpyDeviceToHost));
    for (int r = 0; r < kTileRows; ++r) {
      for (int c = 0; c < kTileColumns; ++c) {
        const int row = place.row + r, column = place.column + c;
        const int wanted = row < kRows && column < kColumns ? matrix[row * kColumns + column] : 0;
        EXPECT_EQ(tile[r * kTileColumns + c], wanted);
      }
    }
  }
  // The same matrix through a map of another address.
  int* moved;
  CHECK_CUDA(cudaMalloc(&moved, matrix.size() * sizeof(int)));
  CHECK_CUDA(cudaMemset(moved, 0, matrix.size() * sizeof(int)));
  CHECK_DRIVER(cuTensorMapReplaceAddress(&map, moved));
  load_tile<<<1, 128>>>(map, 0, 0, out);
  CHECK_CUDA(cudaMemcpy(tile.data(), out, tile.size() * sizeof(int), cudaMemcpyDeviceToHost));
  for (const int value : tile) EXPECT_EQ(value, 0);
  EXPECT_EQ(static_cast<int>(cuTensorMapReplaceAddress(&map, reinterpret_cast<char*>(moved) + 1)),
            static_cast<int>(CUDA_ERROR_INVALID_VALUE));
  CHECK_CUDA(cudaFree(device));
  CHECK_CUDA(cudaFree(moved));
  CHECK_CUDA(cudaFree(out));
  std::printf("ok\n");
}
