// The table of functions, by number, that nvidia-smi calls beside the public ones. The slots that are served tell in another form
// what public functions tell. All others return NVML_ERROR_NOT_SUPPORTED, which nvidia-smi shows as N/A. Source: observed with
// nvidia-smi of driver 580. Another driver branch may number its slots differently. So a call is served only if its parameters
// look as they must.

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "client-stub/nvml/library.h"
#include "client-stub/nvml/nvml_abi.h"
#include "client-stub/nvml/processes.h"
#include "protocol/base/log.h"

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device);
NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* device);
NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t handle, nvmlDevice_t other, unsigned* level);

namespace tessera::nvml {
namespace {

constexpr unsigned char kTableId[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                        0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
constexpr size_t kSlots = 270;  // as in driver 580
constexpr size_t kRelation = 23;
constexpr size_t kPrinted = 26;
constexpr size_t kMonitored = 72;
constexpr size_t kHandleByIndex = 81;
constexpr size_t kProcessSamples = 145;
constexpr size_t kComputeProcesses = 213;
constexpr size_t kGraphicsProcesses = 214;
constexpr size_t kMpsProcesses = 215;
constexpr unsigned kProcessesMax = 1 << 16;

// An element of the table's lists of processes.
struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
  unsigned long long protected_bytes;
  char name[4096];
};
static_assert(sizeof(Process) == 4128);

// Whether a parameter can be a pointer: it is neither null nor a small number, and is aligned.
template <typename T>
bool IsPointer(const T* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return address >= 65536 && address % alignof(T) == 0;
}

nvmlReturn_t HandleByIndex(uintptr_t index, nvmlDevice_t* device) {
  if (!IsPointer(device)) return NVML_ERROR_INVALID_ARGUMENT;
  return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(index), device);
}

// How two devices are connected, for `nvidia-smi topo -m`, where no NVLink joins them: 0 PIX, 1 PXB, 2 PHB, 3 NODE, 4 SYS.
// `first` and `second` are PCI bus ids as texts. Only PHB was observed, for NVML_TOPOLOGY_HOSTBRIDGE (30). The others follow
// NVML's order.
nvmlReturn_t Relation(const char* first, const char* second, unsigned* relation) {
  if (!IsPointer(first) || !IsPointer(second) || !IsPointer(relation)) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlDevice_t from{};
  nvmlDevice_t to{};
  unsigned level = 0;
  if (const nvmlReturn_t result = nvmlDeviceGetHandleByPciBusId_v2(first, &from); result != NVML_SUCCESS) return result;
  if (const nvmlReturn_t result = nvmlDeviceGetHandleByPciBusId_v2(second, &to); result != NVML_SUCCESS) return result;
  if (const nvmlReturn_t result = nvmlDeviceGetTopologyCommonAncestor(from, to, &level); result != NVML_SUCCESS) return result;
  if (level == 0) return NVML_ERROR_NOT_SUPPORTED;  // both are on one board
  *relation = level / kTopologyLevelStep - 1;
  return NVML_SUCCESS;
}

// Whether `nvidia-smi dmon` and `pmon` may watch the device.
nvmlReturn_t Monitored(nvmlDevice_t handle, unsigned* yes) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (!IsPointer(yes)) return NVML_ERROR_INVALID_ARGUMENT;
  *yes = 1;
  return NVML_SUCCESS;
}

// How much each process used the device since some time. There are no samples; `pmon` shows processes without them.
nvmlReturn_t ProcessSamples(nvmlDevice_t handle) {
  Found found;
  const nvmlReturn_t result = Find(handle, &found);
  return result == NVML_SUCCESS ? NVML_ERROR_NOT_FOUND : result;
}

nvmlReturn_t Processes(nvmlDevice_t handle, unsigned* count, Process* processes, bool compute) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (!IsPointer(count) || *count == 0 || *count > kProcessesMax || !IsPointer(processes)) return NVML_ERROR_INVALID_ARGUMENT;
  std::vector<ServerReport::Use> uses;
  if (compute) {
    if (const nvmlReturn_t result = ReadUses(handle, false, &uses); result != NVML_SUCCESS) return result;
  }
  const unsigned room = *count;
  *count = static_cast<unsigned>(uses.size());
  if (uses.size() > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (size_t i = 0; i < uses.size(); ++i) {
    Process& process = processes[i];
    std::string name;
    if (!ProcessName(uses[i].pid, &name)) name = "[Not Found]";
    const bool known = uses[i].used_bytes != ServerReport::Use::kUnknown;
    process.pid = uses[i].pid;
    process.used_bytes = known ? uses[i].used_bytes : NVML_VALUE_NOT_AVAILABLE;
    process.gpu_instance = NVML_NO_INSTANCE;
    process.compute_instance = NVML_NO_INSTANCE;
    process.protected_bytes = 0;
    const size_t length = std::min(name.size(), sizeof(process.name) - 1);
    std::memcpy(process.name, name.data(), length);
    process.name[length] = '\0';
  }
  return NVML_SUCCESS;
}

// The parameters are those of the function in the slot, as registers hold them.
template <size_t slot>
nvmlReturn_t Serve(uintptr_t a, uintptr_t b, uintptr_t c) {
  const auto device = reinterpret_cast<nvmlDevice_t>(a);
  // nvidia-smi tells the library each line that it prints (a format, a stream's name, the line). It is not needed here.
  if constexpr (slot == kPrinted) return List() != nullptr ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
  if constexpr (slot == kRelation) {
    return Relation(reinterpret_cast<const char*>(a), reinterpret_cast<const char*>(b), reinterpret_cast<unsigned*>(c));
  }
  if constexpr (slot == kMonitored) return Monitored(device, reinterpret_cast<unsigned*>(b));
  if constexpr (slot == kProcessSamples) return ProcessSamples(device);
  if constexpr (slot == kHandleByIndex) return HandleByIndex(a, reinterpret_cast<nvmlDevice_t*>(b));
  if constexpr (slot == kComputeProcesses || slot == kGraphicsProcesses || slot == kMpsProcesses) {
    return Processes(device, reinterpret_cast<unsigned*>(b), reinterpret_cast<Process*>(c), slot == kComputeProcesses);
  }
  LogDebug("nvidia-smi's function {} ({:#x}, {:#x}, {:#x}) is not served", slot, a, b, c);
  return NotSupported();
}

using Function = nvmlReturn_t (*)(uintptr_t, uintptr_t, uintptr_t);

// The first word of the table is its size.
struct Table {
  size_t bytes = sizeof(Table);
  Function functions[kSlots - 1];

  template <size_t... slot>
  constexpr explicit Table(std::index_sequence<slot...>) : functions{Serve<slot + 1>...} {}
};
static_assert(sizeof(Table) == kSlots * sizeof(void*));

constexpr Table kTable{std::make_index_sequence<kSlots - 1>()};

}  // namespace
}  // namespace tessera::nvml

NVML_EXPORT nvmlReturn_t nvmlInternalGetExportTable(const void** table, const void* id) {
  if (table == nullptr || id == nullptr || std::memcmp(id, tessera::nvml::kTableId, sizeof(tessera::nvml::kTableId)) != 0) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *table = &tessera::nvml::kTable;
  return NVML_SUCCESS;
}
