// Copies of all kinds and odd sizes: pageable and pinned, synchronous and asynchronous, 2D, sets, device to device.
#include <cstring>
#include <vector>

#include "check.h"

static unsigned char Pattern(size_t i, int seed) { return static_cast<unsigned char>(i * 131 + i / 251 + seed); }

static void RoundTrip(size_t bytes, int seed, bool pinned, cudaStream_t stream) {
  unsigned char *in, *out;
  std::vector<unsigned char> pageable_in, pageable_out;
  if (pinned) {
    CHECK_CUDA(cudaMallocHost(&in, bytes));
    CHECK_CUDA(cudaMallocHost(&out, bytes));
  } else {
    pageable_in.resize(bytes);
    pageable_out.resize(bytes);
    in = pageable_in.data();
    out = pageable_out.data();
  }
  for (size_t i = 0; i < bytes; ++i) in[i] = Pattern(i, seed);
  std::memset(out, 0, bytes);
  unsigned char *a, *b;
  CHECK_CUDA(cudaMalloc(&a, bytes));
  CHECK_CUDA(cudaMalloc(&b, bytes));
  CHECK_CUDA(cudaMemcpyAsync(a, in, bytes, cudaMemcpyHostToDevice, stream));
  if (!pinned) std::memset(in, 0xEE, bytes);  // a pageable source was read when the call returned
  CHECK_CUDA(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, stream));
  CHECK_CUDA(cudaMemcpyAsync(out, b, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  for (size_t i = 0; i < bytes; ++i) EXPECT_EQ(out[i], Pattern(i, seed));
  CHECK_CUDA(cudaFree(a));
  CHECK_CUDA(cudaFree(b));
  if (pinned) {
    CHECK_CUDA(cudaFreeHost(in));
    CHECK_CUDA(cudaFreeHost(out));
  }
}

static void Pitched() {
  const size_t width = 333, height = 77;
  std::vector<unsigned char> in(width * height), out(width * height);
  for (size_t i = 0; i < in.size(); ++i) in[i] = Pattern(i, 9);
  unsigned char* device;
  size_t pitch;
  CHECK_CUDA(cudaMallocPitch(&device, &pitch, width, height));
  CHECK_CUDA(cudaMemset2D(device, pitch, 0x5A, width, height));
  CHECK_CUDA(cudaMemcpy2D(device, pitch, in.data(), width, width, height - 1, cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaMemcpy2D(out.data(), width, device, pitch, width, height, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(out[i], i < width * (height - 1) ? in[i] : 0x5A);
  CHECK_CUDA(cudaFree(device));
}

static void Sets() {
  const size_t n = 100003;
  unsigned char* device;
  CHECK_CUDA(cudaMalloc(&device, n));
  CHECK_CUDA(cudaMemset(device, 0x11, n));
  CHECK_CUDA(cudaMemset(device + 17, 0x22, 1001));
  std::vector<unsigned char> out(n);
  CHECK_CUDA(cudaMemcpy(out.data(), device, n, cudaMemcpyDefault));
  for (size_t i = 0; i < n; ++i) EXPECT_EQ(out[i], i >= 17 && i < 17 + 1001 ? 0x22 : 0x11);
  CHECK_CUDA(cudaFree(device));
}

int main() {
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int seed = 0;
  for (size_t bytes :
       {size_t{1}, size_t{4}, size_t{4095}, size_t{32 << 10}, size_t{(32 << 10) + 1}, size_t{1000003}, size_t{24} << 20}) {
    for (bool pinned : {false, true}) {
      RoundTrip(bytes, ++seed, pinned, nullptr);
      RoundTrip(bytes, ++seed, pinned, stream);
      RoundTrip(bytes, ++seed, pinned, cudaStreamPerThread);
    }
  }
  Pitched();
  Sets();
  CHECK_CUDA(cudaStreamDestroy(stream));
  std::puts("ok");
  return 0;
}
