// A libnvidia-ml.so.1 of an imaginary driver: fixed answers for one device, and every process of the daemon uses 7 MiB of it.
// Stands in for the real one in nvml_test.py, where the daemon serves the emulator as if it were a driver of that machine.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#define FAKE extern "C" __attribute__((visibility("default"))) int

namespace {
char the_device;
struct Memory {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
constexpr int kSuccess = 0;
constexpr int kNotFound = 6;
constexpr int kNotSupported = 3;

int Tell(unsigned* out, unsigned value) {
  *out = value;
  return kSuccess;
}
}  // namespace

FAKE nvmlInit_v2() { return kSuccess; }
FAKE nvmlSystemGetDriverVersion(char* text, unsigned size) { return std::snprintf(text, size, "%s", "580.1.2") > 0 ? kSuccess : 1; }
FAKE nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = &the_device;
  return std::strncmp(uuid, "GPU-", 4) == 0 && std::strlen(uuid) == 40 ? kSuccess : kNotFound;
}
FAKE nvmlDeviceGetMemoryInfo_v2(void*, Memory* memory) {
  if (memory->version != (sizeof(Memory) | 2U << 24)) return 25;
  *memory = {memory->version, 1000ULL << 20, 10ULL << 20, 590ULL << 20, 400ULL << 20};
  return kSuccess;
}
FAKE nvmlDeviceGetUtilizationRates(void*, unsigned* rates) {
  rates[0] = 37;
  rates[1] = 12;
  return kSuccess;
}
FAKE nvmlDeviceGetPowerUsage(void*, unsigned* out) { return Tell(out, 123'456); }
FAKE nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* out) { return Tell(out, 700'000); }
FAKE nvmlDeviceGetTemperature(void*, int sensor, unsigned* out) { return sensor == 0 ? Tell(out, 45) : 2; }
FAKE nvmlDeviceGetClockInfo(void*, int type, unsigned* out) { return Tell(out, 1000 + static_cast<unsigned>(type)); }
FAKE nvmlDeviceGetFanSpeed(void*, unsigned*) { return kNotSupported; }
FAKE nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* processes) {
  const std::string daemon = std::to_string(getppid());
  std::ifstream children("/proc/" + daemon + "/task/" + daemon + "/children");
  unsigned found = 0;
  for (unsigned pid; children >> pid && found < *count; ++found) processes[found] = {pid, 7ULL << 20, ~0U, ~0U};
  *count = found;
  return kSuccess;
}
