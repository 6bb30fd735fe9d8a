// What the startup test runs: loads the library at argv[1], initialises CUDA, and prints each call's result. argv[2]:
// what to do.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace {

template <typename Function>
Function* Find(void* library, const char* name) {
  auto* function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) std::printf("%s is missing\n", name);
  return function;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  void* library = dlopen(argv[1], RTLD_NOW);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  auto* init = Find<CUresult(unsigned)>(library, "cuInit");
  auto* count = Find<CUresult(int*)>(library, "cuDeviceGetCount");
  auto* version = Find<CUresult(int*)>(library, "cuDriverGetVersion");
  if (init == nullptr || count == nullptr || version == nullptr) return 1;
  int number = 0;
  if (std::strcmp(argv[2], "init") == 0) {
    std::printf("%d\n", count(&number));
    std::printf("%d\n", init(1));
    std::printf("%d\n", init(0));
    std::printf("%d\n", init(0));
    std::printf("%d\n", count(&number));
    const CUresult result = version(&number);
    std::printf("%d %d\n", result, number);
  } else if (std::strcmp(argv[2], "threads") == 0) {
    std::vector<std::thread> threads;
    std::vector<CUresult> results(8);
    for (auto& result : results) threads.emplace_back([&result, init] { result = init(0); });
    for (auto& thread : threads) thread.join();
    for (const CUresult result : results) std::printf("%d\n", result);
  }
  dlclose(library);
  return 0;
}
