#include "server/emulator/driver/options.h"

#include <cstdlib>
#include <cstring>

#include "protocol/base/log.h"

namespace tessera::emulator {
namespace {

uint64_t ReadNumber(const char* name, uint64_t fallback, uint64_t lowest, uint64_t highest) {
  const char* text = getenv(name);
  if (text == nullptr || *text == 0) return fallback;
  char* end = nullptr;
  const uint64_t value = strtoull(text, &end, 0);
  if (*end != 0 || value < lowest || value > highest) {
    LogWarning("{} is '{}', not a number from {} to {}: using {}", name, text, lowest, highest, fallback);
    return fallback;
  }
  return value;
}

Options ReadOptions() {
  Options options;
  options.device_count = static_cast<int>(ReadNumber("TESSERA_EMULATOR_DEVICES", 1, 1, kMaxDevices));
  options.memory_bytes = ReadNumber("TESSERA_EMULATOR_MEMORY_MIB", 4096, 16, 1 << 20) << 20;
  options.seed = ReadNumber("TESSERA_EMULATOR_SEED", 1, 0, UINT64_MAX);
  options.delay_us = ReadNumber("TESSERA_EMULATOR_DELAY_US", 50, 0, 10'000'000);
  const char* loading = getenv("CUDA_MODULE_LOADING");
  options.eager_loading = loading != nullptr && strcmp(loading, "EAGER") == 0;
  return options;
}

}  // namespace

const Options& GetOptions() {
  static const Options options = ReadOptions();
  return options;
}

}  // namespace tessera::emulator
