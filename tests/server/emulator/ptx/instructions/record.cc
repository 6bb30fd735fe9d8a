// Records what a real device makes of instructions.ptx: one line per kernel with the hash of its results, to stdout.
// Needs a GPU and the CUDA toolkit: g++ -std=c++17 record.cc -I$CUDA_HOME/include -lcuda && ./a.out instructions.ptx
// [results.bin]
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "operands.h"

static void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s failed with %d\n", what, result);
  std::exit(1);
}

int main(int argc, char** argv) {
  std::ifstream file(argv[1]);
  std::stringstream text;
  text << file.rdbuf();
  const std::string ptx = text.str();
  CUdevice device;
  CUcontext context;
  CUmodule module;
  Check(cuInit(0), "cuInit");
  Check(cuDeviceGet(&device, 0), "cuDeviceGet");
  Check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  Check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  Check(cuModuleLoadData(&module, ptx.c_str()), "cuModuleLoadData");
  CUdeviceptr operands[4];
  for (uint32_t i = 0; i < 4; ++i) {
    const std::vector<uint64_t> values = InstructionOperands(i);
    Check(cuMemAlloc(&operands[i], kTripleCount * 8), "cuMemAlloc");
    Check(cuMemcpyHtoD(operands[i], values.data(), kTripleCount * 8), "cuMemcpyHtoD");
  }
  FILE* full = argc > 2 ? std::fopen(argv[2], "wb") : nullptr;
  for (int k = 0;; ++k) {
    CUfunction kernel;
    if (cuModuleGetFunction(&kernel, module, ("k" + std::to_string(k)).c_str()) != CUDA_SUCCESS) break;
    void* arguments[] = {&operands[0], &operands[1], &operands[2], &operands[3]};
    Check(cuMemsetD8(operands[3], 0, kTripleCount * 8), "cuMemsetD8");
    Check(cuLaunchKernel(kernel, 1, 1, 1, kTripleCount, 1, 1, 0, nullptr, arguments, nullptr), "cuLaunchKernel");
    uint64_t results[kTripleCount];
    Check(cuMemcpyDtoH(results, operands[3], sizeof(results)), "cuMemcpyDtoH");
    std::printf("%016llx\n", static_cast<unsigned long long>(HashResults(results)));
    if (full != nullptr) std::fwrite(results, 1, sizeof(results), full);
  }
  if (full != nullptr) std::fclose(full);
}
