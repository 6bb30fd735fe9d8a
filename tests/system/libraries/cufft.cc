// cuFFT: a plan and a forward transform of an impulse, whose spectrum is flat.
#include <cufft.h>

#include "library_check.h"

int main() {
  constexpr int n = 1024;
  cufftComplex* data = DeviceArray<cufftComplex>(n, [](size_t i) { return cufftComplex{i == 0 ? 1.0f : 0.0f, 0.0f}; });
  cufftHandle plan;
  STEP(cufftPlan1d(&plan, n, CUFFT_C2C, 1));
  const int status = LAUNCH(cufftExecC2C(plan, data, data, CUFFT_FORWARD));
  STEP(cufftDestroy(plan));
  return EndAfterLaunch(status, [&] {
    for (const cufftComplex& value : HostArray(data, n)) {
      if (!Near(value.x, 1) || !Near(value.y, 0)) return false;
    }
    return true;
  });
}
