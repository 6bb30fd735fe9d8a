// Prints how many devices there are, as the driver tells it; with an argument it then waits for the end of its input.
#include <cuda.h>

#include <cstdio>

int main(int argc, char**) {
  int count = -1;
  cuInit(0);
  cuDeviceGetCount(&count);
  std::printf("%d\n", count);
  std::fflush(stdout);
  while (argc > 1 && std::getchar() != EOF) {
  }
  return 0;
}
