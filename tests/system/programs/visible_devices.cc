// Prints the devices that a program has, in order: "2: UUID UUID", or "error N" where cuInit returns N. With arguments: a line
// for each, as of a program that sets CUDA_VISIBLE_DEVICES to it before it uses CUDA.
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

int Print() {
  if (const CUresult result = cuInit(0); result != CUDA_SUCCESS) return std::printf("error %d\n", static_cast<int>(result)) < 0;
  int count = -1;
  if (cuDeviceGetCount(&count) != CUDA_SUCCESS) return 1;
  std::printf("%d:", count);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = -1;
    CUuuid uuid;
    if (cuDeviceGet(&device, ordinal) != CUDA_SUCCESS || cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS) return 1;
    std::printf(" ");
    for (int i = 0; i < 16; ++i)
      std::printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", static_cast<unsigned char>(uuid.bytes[i]));
  }
  std::printf("\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) return Print();
  for (int i = 1; i < argc; ++i) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      setenv("CUDA_VISIBLE_DEVICES", argv[i], 1);
      return Print();
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}
