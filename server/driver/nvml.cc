#include "server/driver/nvml.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <array>
#include <cstring>

#include "protocol/base/log.h"
#include "server/driver/stub_file.h"

namespace tessera {
namespace {

using Value = ServerReport::Value;

constexpr char kName[] = "libnvidia-ml.so.1";
// As for the driver itself (loader.cc).
constexpr const char* kDirectories[] = {"/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64",
                                        "/usr/lib/aarch64-linux-gnu", "/usr/lib/wsl/lib"};
constexpr int kSuccess = 0;
constexpr uint32_t kProcessesMax = 1024;

// The structs of the functions called below.
struct Memory {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
constexpr unsigned kMemoryVersion2 = sizeof(Memory) | 2U << 24;
struct Utilization {
  unsigned gpu, memory;
};
struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kNotAvailable = ~0ULL;

// Functions `nvmlReturn_t f(nvmlDevice_t, unsigned*)`.
struct NumberQuery {
  const char* function;
  Reading reading;
};
constexpr NumberQuery kNumbers[] = {
    {"nvmlDeviceGetPowerUsage", Reading::kPowerMilliwatts},
    {"nvmlDeviceGetPowerManagementLimit", Reading::kPowerLimitMilliwatts},
    {"nvmlDeviceGetEnforcedPowerLimit", Reading::kEnforcedPowerLimitMilliwatts},
    {"nvmlDeviceGetFanSpeed", Reading::kFanPercent},
    {"nvmlDeviceGetPerformanceState", Reading::kPerformanceState},
    {"nvmlDeviceGetPersistenceMode", Reading::kPersistenceMode},
    {"nvmlDeviceGetComputeMode", Reading::kComputeMode},
    {"nvmlDeviceGetCurrPcieLinkGeneration", Reading::kPcieGeneration},
    {"nvmlDeviceGetCurrPcieLinkWidth", Reading::kPcieWidth},
    {"nvmlDeviceGetMaxPcieLinkGeneration", Reading::kPcieGenerationMax},
    {"nvmlDeviceGetMaxPcieLinkWidth", Reading::kPcieWidthMax},
    {"nvmlDeviceGetMinorNumber", Reading::kMinorNumber},
    {"nvmlDeviceGetArchitecture", Reading::kArchitecture},
    {"nvmlDeviceGetBrand", Reading::kBrand},
};
// Functions `nvmlReturn_t f(nvmlDevice_t, int which, unsigned*)`.
struct ChoiceQuery {
  const char* function;
  int which;
  Reading reading;
};
constexpr ChoiceQuery kChoices[] = {
    {"nvmlDeviceGetTemperature", 0, Reading::kTemperatureCelsius},
    {"nvmlDeviceGetClockInfo", 0, Reading::kGraphicsClockMhz},
    {"nvmlDeviceGetClockInfo", 1, Reading::kSmClockMhz},
    {"nvmlDeviceGetClockInfo", 2, Reading::kMemoryClockMhz},
    {"nvmlDeviceGetClockInfo", 3, Reading::kVideoClockMhz},
    {"nvmlDeviceGetMaxClockInfo", 0, Reading::kGraphicsClockMaxMhz},
    {"nvmlDeviceGetMaxClockInfo", 1, Reading::kSmClockMaxMhz},
    {"nvmlDeviceGetMaxClockInfo", 2, Reading::kMemoryClockMaxMhz},
    {"nvmlDeviceGetMaxClockInfo", 3, Reading::kVideoClockMaxMhz},
};

void* Open() {
  std::vector<std::string> names = {kName};
  for (const char* directory : kDirectories) names.push_back(fmt::format("{}/{}", directory, kName));
  for (const std::string& name : names) {
    if (name.find('/') != std::string::npos && IsStubFile(name)) continue;
    void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    link_map* map = nullptr;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && !IsStubFile(map->l_name)) return library;
  }
  return nullptr;
}

}  // namespace

// Calls a function of the library by name; false when it is absent or fails. Its parameters must have exactly these types.
template <typename... Arguments>
bool Nvml::Call(const char* name, Arguments... arguments) const {
  void* symbol = dlsym(library_, name);
  return symbol != nullptr && reinterpret_cast<int (*)(Arguments...)>(symbol)(arguments...) == kSuccess;
}

Result<std::unique_ptr<Nvml>> Nvml::Load() {
  void* library = Open();
  if (library == nullptr) return Status(StatusCode::kNotFound, "there is no libnvidia-ml.so.1 of an NVIDIA driver here");
  std::unique_ptr<Nvml> nvml(new Nvml(library));
  if (!nvml->Call("nvmlInit_v2")) return Status(StatusCode::kNotFound, "libnvidia-ml.so.1 cannot be initialised");
  return nvml;
}

std::string Nvml::DriverRelease() const {
  std::array<char, 96> text{};
  const bool told = Call("nvmlSystemGetDriverVersion", text.data(), static_cast<unsigned>(text.size() - 1));
  return told ? text.data() : "";
}

void* Nvml::Find(const std::string& uuid) const {
  void* device = nullptr;
  return Call("nvmlDeviceGetHandleByUUID", uuid.c_str(), &device) ? device : nullptr;
}

std::vector<Value> Nvml::Read(const std::string& uuid) const {
  std::vector<Value> values;
  void* device = Find(uuid);
  if (device == nullptr) return values;
  Memory memory{};
  memory.version = kMemoryVersion2;
  if (Call("nvmlDeviceGetMemoryInfo_v2", device, &memory)) {
    values.push_back({Reading::kMemoryTotalBytes, memory.total});
    values.push_back({Reading::kMemoryUsedBytes, memory.used});
    values.push_back({Reading::kMemoryReservedBytes, memory.reserved});
  }
  Utilization utilization{};
  if (Call("nvmlDeviceGetUtilizationRates", device, &utilization)) {
    values.push_back({Reading::kGpuPercent, utilization.gpu});
    values.push_back({Reading::kMemoryPercent, utilization.memory});
  }
  unsigned long long large = 0;
  if (Call("nvmlDeviceGetTotalEnergyConsumption", device, &large)) values.push_back({Reading::kEnergyMillijoules, large});
  if (Call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &large)) values.push_back({Reading::kThrottleReasons, large});
  unsigned current = 0;
  unsigned pending = 0;
  if (Call("nvmlDeviceGetEccMode", device, &current, &pending)) {
    values.push_back({Reading::kEccMode, current});
    values.push_back({Reading::kEccModePending, pending});
  }
  unsigned number = 0;
  for (const NumberQuery& query : kNumbers) {
    if (Call(query.function, device, &number)) values.push_back({query.reading, number});
  }
  for (const ChoiceQuery& query : kChoices) {
    if (Call(query.function, device, query.which, &number)) values.push_back({query.reading, number});
  }
  return values;
}

std::map<uint32_t, uint64_t> Nvml::ProcessBytes(const std::string& uuid) const {
  std::map<uint32_t, uint64_t> bytes;
  void* device = Find(uuid);
  if (device == nullptr) return bytes;
  std::vector<Process> processes(kProcessesMax);
  unsigned count = kProcessesMax;
  if (!Call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, processes.data())) return bytes;
  for (unsigned i = 0; i < count; ++i) {
    const bool known = processes[i].used_bytes != kNotAvailable;
    bytes[processes[i].pid] = known ? processes[i].used_bytes : ServerReport::Use::kUnknown;
  }
  return bytes;
}

}  // namespace tessera
