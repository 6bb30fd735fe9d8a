// What a way to a server costs a program: the round trip of small calls that wait, and the rate of large copies. Run by hand, once
// for each way to the same server:
//
//   tessera run --server unix:/run/user/1000/tessera.sock -- build/dev/bin/forwarding_bench
//   tessera run --server tcp://127.0.0.1:4180 -- build/dev/bin/forwarding_bench
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "protocol/base/clock.h"

namespace {

constexpr int kRounds = 2000;
constexpr int kCopies = 9;
constexpr size_t kCopyBytes = size_t{64} << 20;

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "forwarding_bench: %s failed with %d\n", what, result);
  std::exit(1);
}

template <typename Function>
Function* Find(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const function = library == nullptr ? nullptr : dlsym(library, name);
  if (function == nullptr) {
    std::fprintf(stderr, "forwarding_bench: there is no %s\n", name);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(function);
}

// The median time of one call, in nanoseconds.
uint64_t MedianNs(int count, const std::function<CUresult()>& call, const char* what) {
  std::vector<uint64_t> times_ns;
  for (int i = 0; i < count; ++i) {
    const uint64_t begin_ns = tessera::MonotonicNs();
    Check(call(), what);
    times_ns.push_back(tessera::MonotonicNs() - begin_ns);
  }
  std::nth_element(times_ns.begin(), times_ns.begin() + count / 2, times_ns.end());
  return times_ns[count / 2];
}

}  // namespace

#define FIND(name) Find<decltype(name)>(#name)

int main() {
  CUcontext context = nullptr;
  CUdeviceptr device = 0;
  void* pinned = nullptr;
  Check(FIND(cuInit)(0), "cuInit");
  Check(Find<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0), "cuDevicePrimaryCtxRetain");
  Check(FIND(cuCtxSetCurrent)(context), "cuCtxSetCurrent");
  Check(Find<decltype(cuMemAlloc)>("cuMemAlloc_v2")(&device, kCopyBytes), "cuMemAlloc");
  Check(Find<decltype(cuMemAllocHost)>("cuMemAllocHost_v2")(&pinned, kCopyBytes), "cuMemAllocHost");
  auto* const to_device = Find<decltype(cuMemcpyHtoD)>("cuMemcpyHtoD_v2");
  auto* const from_device = Find<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH_v2");
  auto* const synchronize = FIND(cuCtxSynchronize);
  std::vector<char> ordinary(kCopyBytes);
  for (size_t i = 0; i < kCopyBytes; ++i) ordinary[i] = static_cast<char>(i * 2654435761u >> 13);
  std::memcpy(pinned, ordinary.data(), kCopyBytes);

  int word = 0;
  Check(to_device(device, ordinary.data(), kCopyBytes), "cuMemcpyHtoD");
  std::printf("%-32s %10.1f us\n", "cuCtxSynchronize", MedianNs(kRounds, [&] { return synchronize(); }, "cuCtxSynchronize") / 1e3);
  std::printf("%-32s %10.1f us\n", "4 bytes from the device",
              MedianNs(kRounds, [&] { return from_device(&word, device, sizeof(word)); }, "cuMemcpyDtoH") / 1e3);
  const auto rate = [&](const char* name, const std::function<CUresult()>& copy) {
    std::printf("%-32s %10.2f GB/s\n", name, kCopyBytes / static_cast<double>(MedianNs(kCopies, copy, name)));
  };
  rate("64 MiB to the device, pageable", [&] { return to_device(device, ordinary.data(), kCopyBytes); });
  rate("64 MiB from the device, pageable", [&] { return from_device(ordinary.data(), device, kCopyBytes); });
  rate("64 MiB to the device, pinned", [&] { return to_device(device, pinned, kCopyBytes); });
  rate("64 MiB from the device, pinned", [&] { return from_device(pinned, device, kCopyBytes); });
  return 0;
}
