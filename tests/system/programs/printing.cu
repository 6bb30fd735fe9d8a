// Device printf: the text reaches stdout in order, before what the host prints after it synchronised.
#include "check.h"

__global__ void Print(int round) {
  if (threadIdx.x == 0)
    printf("round %d block %d: %s %.2f %lld %c %x\n", round, blockIdx.x, "text", 1.5 * round, 10000000000ll + round, 'c', 255);
}

int main() {
  for (int round = 0; round < 3; ++round) {
    Print<<<1, 32>>>(round);
    CHECK_CUDA(cudaDeviceSynchronize());
    std::printf("host after round %d\n", round);  // not flushed: the next round's text comes behind it all the same
  }
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreate(&stream));
  Print<<<1, 32, 0, stream>>>(7);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  std::puts("ok");
  return 0;
}
