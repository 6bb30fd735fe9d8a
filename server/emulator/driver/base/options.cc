#include "server/emulator/driver/base/options.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>

#include "protocol/base/log.h"
#include "protocol/base/visible_devices.h"

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

// "GPU-74657373-..." of a device.
std::string UuidText(uint64_t machine, int number) {
  const std::array<char, 16> uuid = UuidOf(machine, number);
  std::string text = "GPU-";
  for (size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid[i]));
  }
  return text;
}

DevicePage* MapPage(const char* descriptor) {
  static DevicePage own;
  if (descriptor == nullptr) return &own;
  void* page = mmap(nullptr, sizeof(DevicePage), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(descriptor), 0);
  return page == MAP_FAILED ? &own : static_cast<DevicePage*>(page);
}

Options ReadOptions() {
  Options options;
  const int count = static_cast<int>(ReadNumber("TESSERA_EMULATOR_DEVICES", 1, 1, kMaxDevices));
  options.devices.resize(static_cast<size_t>(count));
  std::iota(options.devices.begin(), options.devices.end(), 0);
  options.machine = ReadNumber("TESSERA_EMULATOR_MACHINE", 0, 0, 65'535);
  if (const char* visible = getenv("CUDA_VISIBLE_DEVICES")) options.devices = SelectDevices(visible, count, options.machine);
  options.memory_bytes = ReadNumber("TESSERA_EMULATOR_MEMORY_MIB", 4096, 16, 1 << 20) << 20;
  options.context_bytes = ReadNumber("TESSERA_EMULATOR_CONTEXT_MIB", 0, 0, 1 << 20) << 20;
  options.devices_of_numa = ReadNumber("TESSERA_EMULATOR_NUMA", 0, 0, kMaxDevices);
  options.seed = ReadNumber("TESSERA_EMULATOR_SEED", 1, 0, UINT64_MAX);
  options.delay_us = ReadNumber("TESSERA_EMULATOR_DELAY_US", 50, 0, 10'000'000);
  options.slow_mb_per_s = ReadNumber("TESSERA_EMULATOR_SLOW", 0, 0, 1'000'000);
  options.queue_commands = ReadNumber("TESSERA_EMULATOR_QUEUE", 1024, 1, UINT64_MAX);
  options.session = ReadNumber("TESSERA_EMULATOR_SESSION", 0, 0, kSessionMax);
  const char* loading = getenv("CUDA_MODULE_LOADING");
  options.eager_loading = loading != nullptr && strcmp(loading, "EAGER") == 0;
  options.page = MapPage(getenv("TESSERA_EMULATOR_PAGE_FD"));
  options.page_slot = static_cast<uint32_t>(ReadNumber("TESSERA_EMULATOR_PAGE_SLOT", 0, 0, kDeviceSlotsMax - 1));
  return options;
}

}  // namespace

std::array<char, 16> UuidOf(uint64_t machine, int number) {
  std::array<char, 16> uuid{};
  constexpr std::string_view kBytes = "tessera emulato";
  std::copy(kBytes.begin(), kBytes.end(), uuid.begin());
  if (machine != 0) {
    uuid[13] = static_cast<char>(machine >> 8);
    uuid[14] = static_cast<char>(machine);
  }
  uuid[15] = static_cast<char>(number);
  return uuid;
}

std::vector<int> SelectDevices(std::string_view list, int count, uint64_t machine) {
  std::vector<std::string> uuids;
  for (int number = 0; number < count; ++number) uuids.push_back(UuidText(machine, number));
  const VisibleDevices visible = SelectVisibleDevices(list, uuids);
  return {visible.numbers.begin(), visible.numbers.end()};
}

const Options& GetOptions() {
  static const Options options = ReadOptions();
  return options;
}

}  // namespace tessera::emulator
