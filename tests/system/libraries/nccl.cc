// NCCL: a communicator of one device, and a sum over it.
#include <nccl.h>

#include "library_check.h"

int main() {
  constexpr size_t n = 1024;
  float* data = DeviceArray<float>(n, [](size_t i) { return float(i); });
  float* sum = DeviceArray<float>(n, [](size_t) { return -1.0f; });
  ncclComm_t communicator;
  const int device = 0;
  STEP(ncclCommInitAll(&communicator, 1, &device));
  const int status = LAUNCH(ncclAllReduce(data, sum, n, ncclFloat, ncclSum, communicator, nullptr));
  STEP(ncclCommDestroy(communicator));
  return EndAfterLaunch(status, [&] { return AllNear(HostArray(sum, n), [](size_t i) { return double(i); }); });
}
