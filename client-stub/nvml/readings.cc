// The part of libnvidia-ml.so.1 that tells how a device is at the moment: memory, load, processes, power, clocks. The server
// reads it from its own NVML, or from the emulated GPU; what it does not tell is NVML_ERROR_NOT_SUPPORTED.

#include <algorithm>
#include <memory>

#include "client-stub/nvml/library.h"
#include "client-stub/nvml/nvml_abi.h"
#include "protocol/base/clock.h"

namespace {

using tessera::Reading;
using tessera::ServerReport;
using tessera::nvml::Device;
using tessera::nvml::DeviceList;
using tessera::nvml::DeviceState;
using tessera::nvml::Find;
using tessera::nvml::State;

// What NVML's clock functions count.
constexpr Reading kClocks[] = {Reading::kGraphicsClockMhz, Reading::kSmClockMhz, Reading::kMemoryClockMhz, Reading::kVideoClockMhz};
constexpr Reading kClockMaxima[] = {Reading::kGraphicsClockMaxMhz, Reading::kSmClockMaxMhz, Reading::kMemoryClockMaxMhz,
                                    Reading::kVideoClockMaxMhz};

nvmlReturn_t Read(nvmlDevice_t handle, bool fresh, std::shared_ptr<const DeviceState>* state, size_t* index) {
  std::shared_ptr<const DeviceList> list;
  const Device* device;
  if (const nvmlReturn_t result = Find(handle, &list, &device, index); result != NVML_SUCCESS) return result;
  if (const nvmlReturn_t result = State(fresh, state); result != NVML_SUCCESS) return result;
  return *index < (*state)->readings.size() ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

// One reading as whatever integer the caller has room for.
template <typename Number>
nvmlReturn_t Give(nvmlDevice_t handle, Reading reading, Number* out, bool fresh = false) {
  std::shared_ptr<const DeviceState> state;
  size_t index = 0;
  if (const nvmlReturn_t result = Read(handle, fresh, &state, &index); result != NVML_SUCCESS) return result;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const auto found = state->readings[index].find(reading);
  if (found == state->readings[index].end()) return NVML_ERROR_NOT_SUPPORTED;
  *out = static_cast<Number>(found->second);
  return NVML_SUCCESS;
}

struct Memory {
  uint64_t total = 0;
  uint64_t used = 0;
  uint64_t reserved = 0;
};

// Never from what was kept: a program that has just allocated asks what is left.
nvmlReturn_t ReadMemory(nvmlDevice_t handle, Memory* memory) {
  if (const nvmlReturn_t result = Give(handle, Reading::kMemoryTotalBytes, &memory->total, true); result != NVML_SUCCESS) return result;
  if (const nvmlReturn_t result = Give(handle, Reading::kMemoryUsedBytes, &memory->used); result != NVML_SUCCESS) return result;
  const nvmlReturn_t result = Give(handle, Reading::kMemoryReservedBytes, &memory->reserved);
  return result == NVML_ERROR_NOT_SUPPORTED ? NVML_SUCCESS : result;
}

// `*count` elements are there; it becomes the number of processes. As NVML, too few are NVML_ERROR_INSUFFICIENT_SIZE.
template <typename Info, typename Fill>
nvmlReturn_t Processes(nvmlDevice_t handle, unsigned* count, Info* infos, Fill fill) {
  std::shared_ptr<const DeviceState> state;
  size_t index = 0;
  if (const nvmlReturn_t result = Read(handle, true, &state, &index); result != NVML_SUCCESS) return result;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned found = 0;
  for (const ServerReport::Use& use : state->uses) {
    if (use.device != index) continue;
    if (found < *count && infos != nullptr) {
      infos[found].pid = use.pid;
      infos[found].usedGpuMemory = use.used_bytes == ServerReport::Use::kUnknown ? NVML_VALUE_NOT_AVAILABLE : use.used_bytes;
      fill(infos[found]);
    }
    ++found;
  }
  const bool fits = found <= *count && (found == 0 || infos != nullptr);
  *count = found;
  return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t WholeDeviceProcesses(nvmlDevice_t handle, unsigned* count, nvmlProcessInfo_v2_t* infos) {
  return Processes(handle, count, infos, [](nvmlProcessInfo_v2_t& info) {
    info.gpuInstanceId = NVML_NO_INSTANCE;
    info.computeInstanceId = NVML_NO_INSTANCE;
  });
}

}  // namespace

// --- memory ---

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t* out) {
  Memory memory;
  if (const nvmlReturn_t result = ReadMemory(handle, &memory); result != NVML_SUCCESS) return result;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  // The first form knows no reserved memory: it counts as used.
  const uint64_t used = std::min(memory.used + memory.reserved, memory.total);
  *out = {memory.total, memory.total - used, used};
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t* out) {
  Memory memory;
  if (const nvmlReturn_t result = ReadMemory(handle, &memory); result != NVML_SUCCESS) return result;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (out->version != nvmlMemory_v2) return NVML_ERROR_FUNCTION_NOT_FOUND;  // measured with driver 580
  const uint64_t taken = std::min(memory.used + memory.reserved, memory.total);
  *out = {nvmlMemory_v2, memory.total, memory.reserved, memory.total - taken, memory.used};
  return NVML_SUCCESS;
}

// --- load and processes ---

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t* out) {
  nvmlUtilization_t rates{};
  if (const nvmlReturn_t result = Give(handle, Reading::kGpuPercent, &rates.gpu); result != NVML_SUCCESS) return result;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  // An emulated GPU has no memory controller whose load could be told apart.
  if (Give(handle, Reading::kMemoryPercent, &rates.memory) != NVML_SUCCESS) rates.memory = 0;
  *out = rates;
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t handle, unsigned* count, nvmlProcessInfo_v1_t* infos) {
  return Processes(handle, count, infos, [](nvmlProcessInfo_v1_t&) {});
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t handle, unsigned* count, nvmlProcessInfo_v2_t* infos) {
  return WholeDeviceProcesses(handle, count, infos);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned* count, nvmlProcessInfo_v2_t* infos) {
  return WholeDeviceProcesses(handle, count, infos);
}
// Forwarded programs draw nothing.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t handle, unsigned* count, nvmlProcessInfo_v2_t*) {
  std::shared_ptr<const DeviceList> list;
  const Device* device;
  if (const nvmlReturn_t result = Find(handle, &list, &device); result != NVML_SUCCESS) return result;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

// --- power, temperature, clocks ---

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t handle, unsigned* milliwatts) {
  return Give(handle, Reading::kPowerMilliwatts, milliwatts);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t handle, unsigned* milliwatts) {
  return Give(handle, Reading::kPowerLimitMilliwatts, milliwatts);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t handle, unsigned* milliwatts) {
  return Give(handle, Reading::kEnforcedPowerLimitMilliwatts, milliwatts);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t handle, unsigned long long* millijoules) {
  return Give(handle, Reading::kEnergyMillijoules, millijoules);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t handle, int sensor, unsigned* celsius) {
  if (sensor != 0) return NVML_ERROR_INVALID_ARGUMENT;
  return Give(handle, Reading::kTemperatureCelsius, celsius);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t handle, nvmlTemperature_v1_t* temperature) {
  if (temperature == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (temperature->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (temperature->sensorType != 0) return NVML_ERROR_INVALID_ARGUMENT;
  return Give(handle, Reading::kTemperatureCelsius, &temperature->temperature);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t handle, unsigned* percent) {
  return Give(handle, Reading::kFanPercent, percent);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t handle, int* state) {
  return Give(handle, Reading::kPerformanceState, state);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t handle, int* state) {
  return Give(handle, Reading::kPerformanceState, state);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t handle, unsigned long long* reasons) {
  return Give(handle, Reading::kThrottleReasons, reasons);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t handle, unsigned long long* reasons) {
  return Give(handle, Reading::kThrottleReasons, reasons);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t handle, unsigned type, unsigned* mhz) {
  if (type >= std::size(kClocks)) return NVML_ERROR_INVALID_ARGUMENT;
  return Give(handle, kClocks[type], mhz);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t handle, unsigned type, unsigned* mhz) {
  if (type >= std::size(kClockMaxima)) return NVML_ERROR_INVALID_ARGUMENT;
  return Give(handle, kClockMaxima[type], mhz);
}

// --- modes and connections of the server's device ---

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t handle, int* mode) {
  return Give(handle, Reading::kPersistenceMode, mode);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t handle, int* mode) {
  return Give(handle, Reading::kComputeMode, mode);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t handle, int* current, int* pending) {
  if (const nvmlReturn_t result = Give(handle, Reading::kEccMode, current); result != NVML_SUCCESS) return result;
  return Give(handle, Reading::kEccModePending, pending);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned* minor) {
  return Give(handle, Reading::kMinorNumber, minor);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t handle, unsigned* architecture) {
  return Give(handle, Reading::kArchitecture, architecture);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t handle, int* brand) { return Give(handle, Reading::kBrand, brand); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t handle, unsigned* generation) {
  return Give(handle, Reading::kPcieGeneration, generation);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t handle, unsigned* width) {
  return Give(handle, Reading::kPcieWidth, width);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t handle, unsigned* generation) {
  return Give(handle, Reading::kPcieGenerationMax, generation);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t handle, unsigned* width) {
  return Give(handle, Reading::kPcieWidthMax, width);
}
