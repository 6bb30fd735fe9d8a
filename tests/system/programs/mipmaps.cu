// Mipmapped arrays: every level written as a surface, read back by a copy, and sampled as a texture of several levels where the
// device has them.
#include <cuda_runtime.h>

#include <vector>

#include "check.h"

constexpr unsigned kLevels = 4, kWidth = 32;

__global__ void paint(cudaSurfaceObject_t level, unsigned width, float value) {
  const unsigned x = threadIdx.x, y = blockIdx.x;
  if (x < width && y < width) surf2Dwrite(value, level, static_cast<int>(x * sizeof(float)), static_cast<int>(y));
}
__global__ void sample(cudaTextureObject_t image, float* out) {
  out[threadIdx.x] = tex2DLod<float>(image, 0.5f, 0.5f, static_cast<float>(threadIdx.x));
}

int main() {
  cudaMipmappedArray_t images;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  CHECK_CUDA(cudaMallocMipmappedArray(&images, &format, make_cudaExtent(kWidth, kWidth, 0), kLevels, cudaArraySurfaceLoadStore));
  for (unsigned i = 0; i < kLevels; ++i) {
    const unsigned width = kWidth >> i;
    cudaArray_t level, again;
    CHECK_CUDA(cudaGetMipmappedArrayLevel(&level, images, i));
    CHECK_CUDA(cudaGetMipmappedArrayLevel(&again, images, i));
    EXPECT_EQ(level == again, true);
    cudaExtent extent;
    cudaChannelFormatDesc got;
    unsigned flags = 0;
    CHECK_CUDA(cudaArrayGetInfo(&got, &extent, &flags, level));
    EXPECT_EQ(extent.width, size_t{width});
    EXPECT_EQ(got.x, 32);
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = level;
    cudaSurfaceObject_t surface;
    CHECK_CUDA(cudaCreateSurfaceObject(&surface, &resource));
    paint<<<width, width>>>(surface, width, static_cast<float>(i + 1));
    std::vector<float> host(width * width);
    CHECK_CUDA(cudaMemcpy2DFromArray(host.data(), width * sizeof(float), level, 0, 0, width * sizeof(float), width,
                                     cudaMemcpyDeviceToHost));
    for (const float value : host) EXPECT_EQ(value, static_cast<float>(i + 1));
    CHECK_CUDA(cudaDestroySurfaceObject(surface));
  }
  cudaArray_t beyond;
  EXPECT_EQ(static_cast<int>(cudaGetMipmappedArrayLevel(&beyond, images, kLevels)), static_cast<int>(cudaErrorInvalidValue));
  cudaGetLastError();

  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeMipmappedArray;
  resource.res.mipmap.mipmap = images;
  cudaTextureDesc texture{};
  texture.normalizedCoords = 1;
  texture.maxMipmapLevelClamp = kLevels - 1;
  cudaTextureObject_t image;
  const cudaError_t made = cudaCreateTextureObject(&image, &resource, &texture, nullptr);
  if (made == cudaErrorNotSupported) {
    std::printf("no textures of several levels on this device\n");
  } else {
    CHECK_CUDA(made);
    float *out, host[kLevels];
    CHECK_CUDA(cudaMalloc(&out, sizeof(host)));
    sample<<<1, kLevels>>>(image, out);
    CHECK_CUDA(cudaMemcpy(host, out, sizeof(host), cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < kLevels; ++i) EXPECT_EQ(host[i], static_cast<float>(i + 1));
    CHECK_CUDA(cudaDestroyTextureObject(image));
    CHECK_CUDA(cudaFree(out));
  }
  CHECK_CUDA(cudaFreeMipmappedArray(images));
  std::printf("ok\n");
}
