// Texture and surface objects over arrays and linear memory, as ordinary programs use them.
#include <cmath>
#include <vector>

#include "check.h"

__global__ void Fetch(cudaTextureObject_t texture, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n + 2) out[i] = tex1Dfetch<float>(texture, i - 1);
}

__global__ void Sample(cudaTextureObject_t texture, float* out, int width, int height, float step) {
  const int x = threadIdx.x, y = blockIdx.x;
  out[y * width + x] = tex2D<float>(texture, (x + 0.5f) * step, (y + 0.5f) * step);
}

__global__ void Bytes(cudaTextureObject_t texture, float4* fractions, uchar4* whole, cudaTextureObject_t raw, int width) {
  const int x = threadIdx.x, y = blockIdx.x;
  fractions[y * width + x] = tex2D<float4>(texture, x + 0.5f, y + 0.5f);
  whole[y * width + x] = tex2D<uchar4>(raw, x + 0.5f, y + 0.5f);
}

__global__ void Volume(cudaTextureObject_t texture, float* out, int n) {
  const int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
  out[(z * n + y) * n + x] = tex3D<float>(texture, x + 0.5f, y + 0.5f, z + 1.0f);
}

__global__ void Layers(cudaTextureObject_t texture, int* out, int width, int height) {
  const int x = threadIdx.x, y = threadIdx.y, layer = blockIdx.x;
  out[(layer * height + y) * width + x] = tex2DLayered<int>(texture, x, y, layer);
}

__global__ void Transform(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int width) {
  const int x = threadIdx.x, y = blockIdx.x;
  float2 value;
  surf2Dread(&value, from, x * static_cast<int>(sizeof(float2)), y);
  value.x += 1;
  value.y *= -2;
  surf2Dwrite(value, to, (width - 1 - x) * static_cast<int>(sizeof(float2)), y);
  surf2Dwrite(value, to, width * static_cast<int>(sizeof(float2)), y, cudaBoundaryModeZero);  // outside: nothing happens
}

cudaTextureObject_t Texture(const cudaResourceDesc& resource, cudaTextureFilterMode filter, cudaTextureReadMode read,
                            cudaTextureAddressMode address, bool normalized) {
  cudaTextureDesc description = {};
  for (auto& mode : description.addressMode) mode = address;
  description.filterMode = filter;
  description.readMode = read;
  description.normalizedCoords = normalized;
  cudaTextureObject_t texture;
  CHECK_CUDA(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
  return texture;
}

cudaResourceDesc OfArray(cudaArray_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  return resource;
}

template <typename T>
T* New(size_t count) {
  T* memory;
  CHECK_CUDA(cudaMalloc(&memory, count * sizeof(T)));
  CHECK_CUDA(cudaMemset(memory, 0xFF, count * sizeof(T)));
  return memory;
}

template <typename T>
std::vector<T> Read(const T* memory, size_t count) {
  std::vector<T> host(count);
  CHECK_CUDA(cudaMemcpy(host.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
  return host;
}

void LinearMemory() {
  const int n = 300;
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[i] = i * 0.5f + 1;
  float* memory = New<float>(n);
  CHECK_CUDA(cudaMemcpy(memory, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = memory;
  resource.res.linear.desc = cudaCreateChannelDesc<float>();
  resource.res.linear.sizeInBytes = n * sizeof(float);
  const cudaTextureObject_t texture =
      Texture(resource, cudaFilterModePoint, cudaReadModeElementType, cudaAddressModeClamp, false);
  float* out = New<float>(n + 2);
  Fetch<<<2, 256>>>(texture, out, n);
  const std::vector<float> result = Read(out, n + 2);
  EXPECT_EQ(result[0], 0.0f);
  EXPECT_EQ(result[n + 1], 0.0f);
  for (int i = 0; i < n; ++i) EXPECT_EQ(result[i + 1], host[i]);
  CHECK_CUDA(cudaDestroyTextureObject(texture));
  CHECK_CUDA(cudaFree(memory));
  CHECK_CUDA(cudaFree(out));
}

void Filtering() {
  const int width = 16, height = 8;
  std::vector<float> host(width * height);
  for (int i = 0; i < width * height; ++i) host[i] = static_cast<float>(i % width * 4 + i / width * 256);
  cudaArray_t array;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  CHECK_CUDA(cudaMallocArray(&array, &format, width, height));
  CHECK_CUDA(cudaMemcpy2DToArray(array, 0, 0, host.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
  float* out = New<float>(width * height);
  const auto at = [&](int x, int y) { return host[std::min(y, height - 1) * width + std::min(x, width - 1)]; };

  // Points at the middle of elements, then half-way between four of them.
  cudaTextureObject_t texture =
      Texture(OfArray(array), cudaFilterModeLinear, cudaReadModeElementType, cudaAddressModeClamp, false);
  Sample<<<height, width>>>(texture, out, width, height, 1.0f);
  std::vector<float> result = Read(out, width * height);
  for (int i = 0; i < width * height; ++i) EXPECT_EQ(result[i], host[i]);
  Sample<<<height / 2, width / 2>>>(texture, out, width / 2, height / 2, 2.0f);
  result = Read(out, width * height / 4);
  for (int y = 0; y < height / 2; ++y) {
    for (int x = 0; x < width / 2; ++x) {
      const float middle = (at(2 * x, 2 * y) + at(2 * x + 1, 2 * y) + at(2 * x, 2 * y + 1) + at(2 * x + 1, 2 * y + 1)) / 4;
      EXPECT_EQ(result[y * width / 2 + x], middle);
    }
  }
  CHECK_CUDA(cudaDestroyTextureObject(texture));

  // Normalised coordinates from 0 to 2 in both directions, repeated.
  texture = Texture(OfArray(array), cudaFilterModePoint, cudaReadModeElementType, cudaAddressModeWrap, true);
  Sample<<<height, width>>>(texture, out, width, height, 1.0f / 8);
  result = Read(out, width * height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int column = static_cast<int>((x + 0.5f) / 8 * width) % width,
                row = static_cast<int>((y + 0.5f) / 8 * height) % height;
      EXPECT_EQ(result[y * width + x], at(column, row));
    }
  }
  CHECK_CUDA(cudaDestroyTextureObject(texture));
  CHECK_CUDA(cudaFreeArray(array));
  CHECK_CUDA(cudaFree(out));
}

void ReadModes() {
  const int width = 12, height = 5;
  std::vector<uchar4> host(width * height);
  for (int i = 0; i < width * height; ++i) host[i] = make_uchar4(i, 255 - i, i * 3 % 256, 7);
  cudaArray_t array;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
  CHECK_CUDA(cudaMallocArray(&array, &format, width, height));
  CHECK_CUDA(cudaMemcpy2DToArray(array, 0, 0, host.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
  const cudaTextureObject_t fractions =
      Texture(OfArray(array), cudaFilterModePoint, cudaReadModeNormalizedFloat, cudaAddressModeClamp, false);
  const cudaTextureObject_t whole =
      Texture(OfArray(array), cudaFilterModePoint, cudaReadModeElementType, cudaAddressModeClamp, false);
  float4* floats = New<float4>(width * height);
  uchar4* bytes = New<uchar4>(width * height);
  Bytes<<<height, width>>>(fractions, floats, bytes, whole, width);
  const std::vector<float4> as_floats = Read(floats, width * height);
  const std::vector<uchar4> as_bytes = Read(bytes, width * height);
  for (int i = 0; i < width * height; ++i) {
    EXPECT_EQ(as_floats[i].x, host[i].x / 255.0f);
    EXPECT_EQ(as_floats[i].w, 7 / 255.0f);
    EXPECT_EQ(as_bytes[i].y, host[i].y);
    EXPECT_EQ(as_bytes[i].z, host[i].z);
  }
  CHECK_CUDA(cudaDestroyTextureObject(fractions));
  CHECK_CUDA(cudaDestroyTextureObject(whole));
  CHECK_CUDA(cudaFreeArray(array));
}

void ThreeDimensions() {
  const int n = 8;
  std::vector<float> host(n * n * n);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(i * 2);
  cudaArray_t array;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  CHECK_CUDA(cudaMalloc3DArray(&array, &format, make_cudaExtent(n, n, n)));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(host.data(), n * sizeof(float), n, n);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(n, n, n);
  copy.kind = cudaMemcpyHostToDevice;
  CHECK_CUDA(cudaMemcpy3D(&copy));
  const cudaTextureObject_t texture =
      Texture(OfArray(array), cudaFilterModeLinear, cudaReadModeElementType, cudaAddressModeClamp, false);
  float* out = New<float>(host.size());
  Volume<<<n, dim3(n, n)>>>(texture, out, n);
  const std::vector<float> result = Read(out, host.size());
  for (int i = 0; i < n * n * n; ++i) {
    const int above = std::min(i / (n * n) + 1, n - 1) * n * n + i % (n * n);
    EXPECT_EQ(result[i], (host[i] + host[above]) / 2);
  }
  CHECK_CUDA(cudaDestroyTextureObject(texture));
  CHECK_CUDA(cudaFreeArray(array));

  cudaArray_t layers;
  const cudaChannelFormatDesc whole = cudaCreateChannelDesc<int>();
  CHECK_CUDA(cudaMalloc3DArray(&layers, &whole, make_cudaExtent(n, 4, 3), cudaArrayLayered));
  std::vector<int> numbers(n * 4 * 3);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i) - 50;
  copy = {};
  copy.srcPtr = make_cudaPitchedPtr(numbers.data(), n * sizeof(int), n, 4);
  copy.dstArray = layers;
  copy.extent = make_cudaExtent(n, 4, 3);
  copy.kind = cudaMemcpyHostToDevice;
  CHECK_CUDA(cudaMemcpy3D(&copy));
  const cudaTextureObject_t layered =
      Texture(OfArray(layers), cudaFilterModePoint, cudaReadModeElementType, cudaAddressModeClamp, false);
  int* from_layers = New<int>(numbers.size());
  Layers<<<3, dim3(n, 4)>>>(layered, from_layers, n, 4);
  const std::vector<int> read = Read(from_layers, numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(read[i], numbers[i]);
  CHECK_CUDA(cudaDestroyTextureObject(layered));
  CHECK_CUDA(cudaFreeArray(layers));
}

void Surfaces() {
  const int width = 20, height = 6;
  std::vector<float2> host(width * height);
  for (int i = 0; i < width * height; ++i) host[i] = make_float2(i, i * 0.5f);
  cudaArray_t arrays[2];
  cudaSurfaceObject_t surfaces[2];
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float2>();
  for (int i = 0; i < 2; ++i) {
    CHECK_CUDA(cudaMallocArray(&arrays[i], &format, width, height, cudaArraySurfaceLoadStore));
    const cudaResourceDesc resource = OfArray(arrays[i]);
    CHECK_CUDA(cudaCreateSurfaceObject(&surfaces[i], &resource));
  }
  CHECK_CUDA(cudaMemcpy2DToArray(arrays[0], 0, 0, host.data(), width * 8, width * 8, height, cudaMemcpyHostToDevice));
  Transform<<<height, width>>>(surfaces[0], surfaces[1], width);
  CHECK_CUDA(cudaGetLastError());
  std::vector<float2> result(width * height);
  CHECK_CUDA(cudaMemcpy2DFromArray(result.data(), width * 8, arrays[1], 0, 0, width * 8, height, cudaMemcpyDeviceToHost));
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const float2 from = host[y * width + x], to = result[y * width + width - 1 - x];
      EXPECT_EQ(to.x, from.x + 1);
      EXPECT_EQ(to.y, from.y * -2);
    }
  }
  for (int i = 0; i < 2; ++i) {
    CHECK_CUDA(cudaDestroySurfaceObject(surfaces[i]));
    CHECK_CUDA(cudaFreeArray(arrays[i]));
  }
}

int main() {
  LinearMemory();
  Filtering();
  ReadModes();
  ThreeDimensions();
  Surfaces();
  std::puts("ok");
  return 0;
}
