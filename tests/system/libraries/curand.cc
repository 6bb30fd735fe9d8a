// cuRAND: uniform numbers.
#include <curand.h>

#include "library_check.h"

int main() {
  constexpr size_t n = 4096;
  float* numbers = DeviceArray<float>(n, [](size_t) { return -1.0f; });
  curandGenerator_t generator;
  STEP(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10));
  STEP(curandSetPseudoRandomGeneratorSeed(generator, 42));
  const int status = LAUNCH(curandGenerateUniform(generator, numbers, n));
  STEP(curandDestroyGenerator(generator));
  return EndAfterLaunch(status, [&] {
    double sum = 0;
    for (const float number : HostArray(numbers, n)) {
      if (!(number > 0 && number <= 1)) return false;
      sum += number;
    }
    return sum > 0.4 * n && sum < 0.6 * n;
  });
}
