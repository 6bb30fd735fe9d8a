// The emulated GPU's driver, and a word on stderr about what it finds in its environment when it is initialised. For mps_test.py.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) int cuInit(unsigned flags) {
  const char* const pipes = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  std::fprintf(stderr, "witness: process %d has MPS at %s\n", static_cast<int>(getpid()), pipes != nullptr ? pipes : "its place");
  return reinterpret_cast<int (*)(unsigned)>(dlsym(RTLD_NEXT, "cuInit"))(flags);
}
