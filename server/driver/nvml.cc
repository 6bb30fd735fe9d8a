#include "server/driver/nvml.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "protocol/base/log.h"
#include "server/driver/driver_directories.h"
#include "server/driver/stub_file.h"

namespace tessera {
namespace {

using Value = ServerReport::Value;

constexpr char kName[] = "libnvidia-ml.so.1";
constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kAbsent = -1;
constexpr uint32_t kProcessesMax = 1024;

constexpr unsigned Version(size_t bytes, unsigned version) { return static_cast<unsigned>(bytes) | version << 24; }

// The structs of the functions called below.
struct Memory {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct Process {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
struct ProcessSample {
  unsigned pid;
  unsigned long long time_us;
  unsigned sm, memory, encoder, decoder;
};
struct PciInfo {
  char legacy_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};
struct PciInfoExt {
  unsigned version, domain, bus, device, device_id, subsystem_id, base_class, sub_class;
  char id[32];
};
struct FieldValue {
  unsigned field, scope;
  long long time_us, latency_us;
  unsigned type;
  int result;
  unsigned long long value;
};
constexpr unsigned long long kNotAvailable = ~0ULL;
constexpr unsigned kTextBytes = 96;
constexpr int kInvalidArgument = 2;
// Of a field, for all links together.
constexpr unsigned kEveryLink = ~0U;

// Those of device_readings.def.
template <size_t n>
struct Words32 {
  unsigned word[n];
};
template <size_t n>
struct Words64 {
  unsigned long long word[n];
};
template <size_t n>
struct Versioned32 {
  unsigned version;
  unsigned word[n];
};
template <size_t n>
struct Versioned64 {
  unsigned version;
  unsigned long long word[n];
};

// With room behind it: what the driver is given is larger than what it should write. With two GPUs the heap of whoever asked
// about their links was found damaged (580), here and in programs of their own, and no single question did it.
constexpr size_t kRoomBytes = 1024;
template <typename Words>
struct Roomy : Words {
  std::array<std::byte, kRoomBytes> room;
};

template <typename Words>
void Add(std::vector<Value>* values, Reading first, const Words& words) {
  uint32_t place = 0;
  for (const auto word : words) values->push_back({first + place++, word});
}

void* Open() {
  std::vector<std::string> names = {kName};
  for (const char* directory : kDriverDirectories) names.push_back(fmt::format("{}/{}", directory, kName));
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

template <typename... Arguments>
int Nvml::Answer(const char* name, Arguments... arguments) const {
  void* symbol = dlsym(library_, name);
  return symbol != nullptr ? reinterpret_cast<int (*)(Arguments...)>(symbol)(arguments...) : kAbsent;
}

template <typename... Arguments>
bool Nvml::Call(const char* name, Arguments... arguments) const {
  return Answer(name, arguments...) == kSuccess;
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

Nvml::Readings Nvml::Read(const std::string& uuid, ServerQuery::Ask ask) const {
  Readings readings;
  void* device = Find(uuid);
  if (device == nullptr) return readings;
  if (ask == ServerQuery::Ask::kState) {
    ReadMemoryAndLoad(device, &readings);
    ReadIdentity(device, &readings);
  }
  if (ask == ServerQuery::Ask::kDetails) ReadClocks(device, &readings);
  ReadListed(device, ask, &readings);
  return readings;
}

void Nvml::ReadMemoryAndLoad(void* device, Readings* readings) const {
  Memory memory{};
  memory.version = Version(sizeof(memory), 2);
  if (Call("nvmlDeviceGetMemoryInfo_v2", device, &memory)) {
    readings->values.push_back({Reading::kMemoryTotalBytes, memory.total});
    readings->values.push_back({Reading::kMemoryUsedBytes, memory.used});
    readings->values.push_back({Reading::kMemoryReservedBytes, memory.reserved});
  }
  Utilization utilization{};
  if (Call("nvmlDeviceGetUtilizationRates", device, &utilization)) {
    readings->values.push_back({Reading::kGpuPercent, utilization.gpu});
    readings->values.push_back({Reading::kMemoryPercent, utilization.memory});
  }
}

void Nvml::ReadIdentity(void* device, Readings* readings) const {
  PciInfo pci{};
  if (Call("nvmlDeviceGetPciInfo_v3", device, &pci)) {
    readings->values.push_back({Reading::kPciDeviceId, pci.device_id});
    readings->values.push_back({Reading::kPciSubsystemId, pci.subsystem_id});
  }
  PciInfoExt more{};
  more.version = Version(sizeof(more), 1);
  if (Call("nvmlDeviceGetPciInfoExt", device, &more)) {
    readings->values.push_back({Reading::kPciBaseClass, more.base_class});
    readings->values.push_back({Reading::kPciSubClass, more.sub_class});
  }
}

// Lists that are longer than their numbers are left out: half of one would look like a whole one.
void Nvml::ReadClocks(void* device, Readings* readings) const {
  std::array<unsigned, kMemoryClocksMax> memory{};
  unsigned count = kMemoryClocksMax;
  if (!Call("nvmlDeviceGetSupportedMemoryClocks", device, &count, memory.data())) return;
  const std::span<const unsigned> memory_mhz = std::span(memory).first(std::min<size_t>(count, memory.size()));
  readings->values.push_back({Reading::kMemoryClocksMhz, memory_mhz.size()});
  Add(&readings->values, Reading::kMemoryClocksMhz + 1, memory_mhz);
  for (uint32_t i = 0; i < memory_mhz.size(); ++i) {
    std::array<unsigned, kGraphicsClocksMax> graphics{};
    count = kGraphicsClocksMax;
    if (!Call("nvmlDeviceGetSupportedGraphicsClocks", device, memory_mhz[i], &count, graphics.data())) continue;
    const std::span<const unsigned> graphics_mhz = std::span(graphics).first(std::min<size_t>(count, graphics.size()));
    const Reading list = Reading::kGraphicsClocksMhz + i * kClocksPlaces;
    readings->values.push_back({list, graphics_mhz.size()});
    Add(&readings->values, list + 1, graphics_mhz);
  }
}

// device_readings.def, line by line.
void Nvml::ReadListed(void* device, ServerQuery::Ask ask, Readings* readings) const {
  std::vector<Value>* values = &readings->values;
  const auto text = [&](const char* function, Reading reading, auto... which) {
    std::array<char, kRoomBytes> out{};
    if (Call(function, device, which..., out.data(), kTextBytes)) readings->texts.push_back({reading, out.data()});
  };
  // Calls a function for one of its choices. False: NVML refused. Its code travels, unless that is NVML_ERROR_NOT_SUPPORTED.
  const auto told = [&](Reading reading, const char* function, auto... which) {
    const int answer = Answer(function, device, which...);
    if (answer != kSuccess && answer != kNotSupported && answer != kAbsent) {
      values->push_back({reading + kRefusedReading, static_cast<uint64_t>(answer)});
    }
    return answer == kSuccess;
  };
  unsigned word[kRoomBytes / sizeof(unsigned)] = {};
  std::array<char, kRoomBytes> firmware{};
  if (ask == ServerQuery::Ask::kDetails && Call("nvmlDeviceGetGspFirmwareVersion", device, firmware.data())) {
    readings->texts.push_back({Reading::kGspFirmwareVersion, firmware.data()});
  }
#define ASKED(asked) (ask == ServerQuery::Ask::k##asked)
#define READING_NUMBER(asked, number, name, function) \
  if (ASKED(asked) && Call(#function, device, &word[0])) values->push_back({Reading::name, word[0]});
#define READING_LARGE(asked, number, name, function) \
  if (Roomy<Words64<1>> large{}; ASKED(asked) && Call(#function, device, &large.word[0])) Add(values, Reading::name, large.word);
#define READING_PAIR(asked, number, name, function) \
  if (ASKED(asked) && Call(#function, device, &word[0], &word[1])) Add(values, Reading::name, std::span(word, 2));
#define READING_TRIPLE(asked, number, name, function) \
  if (ASKED(asked) && Call(#function, device, &word[0], &word[1], &word[2])) Add(values, Reading::name, std::span(word, 3));
#define READING_QUADRUPLE(asked, number, name, function)                               \
  if (ASKED(asked) && Call(#function, device, &word[0], &word[1], &word[2], &word[3])) \
    Add(values, Reading::name, std::span(word, 4));
#define READING_STRUCT32(asked, number, name, function, n) \
  if (Roomy<Words32<n>> words{}; ASKED(asked) && Call(#function, device, &words)) Add(values, Reading::name, words.word);
#define READING_STRUCT64(asked, number, name, function, n) \
  if (Roomy<Words64<n>> words{}; ASKED(asked) && Call(#function, device, &words)) Add(values, Reading::name, words.word);
#define READING_VERSIONED32(asked, number, name, function, n)                    \
  if (Roomy<Versioned32<n>> words{{Version(sizeof(Versioned32<n>), 1), {}}, {}}; \
      ASKED(asked) && Call(#function, device, &words))                           \
    Add(values, Reading::name, words.word);
#define READING_VERSIONED64(asked, number, name, function, n)                    \
  if (Roomy<Versioned64<n>> words{{Version(sizeof(Versioned64<n>), 1), {}}, {}}; \
      ASKED(asked) && Call(#function, device, &words))                           \
    Add(values, Reading::name, words.word);
#define READING_CHOICE(asked, number, name, function, n) \
  for (unsigned i = 0; ASKED(asked) && i < n; ++i)       \
    if (told(Reading::name + i, #function, i, &word[0])) values->push_back({Reading::name + i, word[0]});
#define READING_CHOICE_PAIR64(asked, number, name, function, n)                       \
  for (unsigned i = 0; ASKED(asked) && i < n; ++i)                                    \
    if (Roomy<Words64<2>> words{}; told(Reading::name + 2 * i, #function, i, &words)) \
      Add(values, Reading::name + 2 * i, words.word);
#define READING_TWO_CHOICES(asked, number, name, function, n, m, k)                              \
  for (unsigned i = 0; ASKED(asked) && i < n * m; ++i)                                           \
    if (Roomy<Words64<k>> words{}; told(Reading::name + k * i, #function, i / m, i % m, &words)) \
      Add(values, Reading::name + k * i, words.word);
#define READING_THREE_CHOICES(asked, number, name, function, n, m, k)                                         \
  for (unsigned i = 0; ASKED(asked) && i < n * m * k; ++i)                                                    \
    if (Roomy<Words64<1>> large{}; told(Reading::name + i, #function, i / k / m, i / k % m, i % k, &large)) { \
      Add(values, Reading::name + i, large.word);                                                             \
    }
#define READING_TWO_CHOICES32(asked, number, name, function, n, m) \
  for (unsigned i = 0; ASKED(asked) && i < n * m; ++i)             \
    if (told(Reading::name + i, #function, i / m, i % m, &word[0])) values->push_back({Reading::name + i, word[0]});
#define READING_CHOICE_STRUCT32(asked, number, name, function, n, k)                  \
  for (unsigned i = 0; ASKED(asked) && i < n; ++i)                                    \
    if (Roomy<Words32<k>> words{}; told(Reading::name + k * i, #function, i, &words)) \
      Add(values, Reading::name + k * i, words.word);
#define READING_FORM32(asked, number, name, function, version, n)                      \
  if (Roomy<Versioned32<n>> words{{Version(sizeof(Versioned32<n>), version), {}}, {}}; \
      ASKED(asked) && Call(#function, device, &words))                                 \
    Add(values, Reading::name, words.word);
#define READING_TEXT(asked, number, name, function) \
  if (ASKED(asked)) text(#function, Reading::name);
#define READING_CHOICE_TEXT(asked, number, name, function, n) \
  for (unsigned i = 0; ASKED(asked) && i < n; ++i) text(#function, Reading::name + i, i);
#include "protocol/wire/device_readings.def"
#undef ASKED
}

std::vector<ServerReport::FieldValue> Nvml::ReadFields(const std::string& uuid,
                                                       const std::vector<ServerQuery::Field>& fields) const {
  void* device = Find(uuid);
  if (device == nullptr) return {};
  std::vector<FieldValue> asked;
  for (const ServerQuery::Field& field : fields) {
    const bool safe = field.scope < kLinksMax || field.scope == kEveryLink;
    if (safe) asked.push_back({field.field, field.scope, 0, 0, 0, 0, 0});
  }
  const size_t count = asked.size();
  asked.resize(count + kRoomBytes / sizeof(FieldValue));
  if (count != 0 && !Call("nvmlDeviceGetFieldValues", device, static_cast<int>(count), asked.data())) return {};
  std::vector<ServerReport::FieldValue> values;
  size_t next = 0;
  for (const ServerQuery::Field& field : fields) {
    const bool told = next < count && asked[next].field == field.field && asked[next].scope == field.scope;
    const FieldValue from = told ? asked[next++] : FieldValue{field.field, field.scope, 0, 0, 0, kInvalidArgument, 0};
    values.push_back({field, static_cast<uint32_t>(from.result), from.type, from.value, from.time_us, from.latency_us});
  }
  return values;
}

std::vector<ServerReport::Value> Nvml::ReadPeers(const std::string& uuid, const std::vector<std::string>& others) const {
  constexpr unsigned kNvLink = 2, kPci = 4;  // of nvmlGpuP2PCapsIndex_t
  std::vector<Value> values;
  void* device = Find(uuid);
  if (device == nullptr) return values;
  std::vector<void*> handles;
  for (const std::string& other : others) handles.push_back(Find(other));
  for (uint32_t i = 0; i < handles.size(); ++i) {
    const auto add = [&](Reading reading, const char* function, auto... which) {
      unsigned value = 0;
      if (Call(function, device, handles[i], which..., &value)) values.push_back({reading + i, value});
    };
    if (handles[i] == nullptr) continue;
    add(Reading::kCommonAncestor, "nvmlDeviceGetTopologyCommonAncestor");
    add(Reading::kPeerStatusNvLink, "nvmlDeviceGetP2PStatus", kNvLink);
    add(Reading::kPeerStatusPci, "nvmlDeviceGetP2PStatus", kPci);
  }
  for (uint32_t i = 0; i < kTopologyLevels; ++i) {
    constexpr const char* kFunction = "nvmlDeviceGetTopologyNearestGpus";
    const unsigned level = i * kTopologyLevelStep;
    unsigned count = 0;
    void** nowhere = nullptr;
    if (!Call(kFunction, device, level, &count, nowhere)) continue;
    std::vector<void*> nearest(count + kRoomBytes / sizeof(void*));
    if (count != 0 && !Call(kFunction, device, level, &count, nearest.data())) continue;
    nearest.resize(std::min<size_t>(count, nearest.size()));
    uint64_t places = 0;
    for (uint32_t other = 0; other < handles.size(); ++other) {
      const bool found = std::ranges::find(nearest, handles[other]) != nearest.end();
      if (handles[other] != nullptr && found) places |= uint64_t{1} << other;
    }
    values.push_back({Reading::kNearestDevices + i, places});
  }
  return values;
}

std::map<uint32_t, uint64_t> Nvml::ProcessBytes(const std::string& uuid) const {
  std::map<uint32_t, uint64_t> bytes;
  void* device = Find(uuid);
  if (device == nullptr) return bytes;
  std::vector<Process> processes(2 * kProcessesMax);
  unsigned count = kProcessesMax;
  if (!Call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, processes.data())) return bytes;
  for (unsigned i = 0; i < std::min(count, kProcessesMax); ++i) {
    const bool known = processes[i].used_bytes != kNotAvailable;
    bytes[processes[i].pid] = known ? processes[i].used_bytes : ServerReport::Use::kUnknown;
  }
  return bytes;
}

std::optional<std::map<uint32_t, ServerReport::Load>> Nvml::ProcessLoads(const std::string& uuid, uint64_t since_us) const {
  std::map<uint32_t, ServerReport::Load> loads;
  void* device = Find(uuid);
  if (device == nullptr) return std::nullopt;
  std::vector<ProcessSample> samples(2 * kProcessesMax);
  unsigned count = kProcessesMax;
  const unsigned long long since = since_us;
  const int answer = Answer("nvmlDeviceGetProcessUtilization", device, samples.data(), &count, since);
  if (answer == kNotFound) return loads;  // nothing has been sampled since
  if (answer != kSuccess) return std::nullopt;
  samples.resize(std::min(count, kProcessesMax));
  for (const ProcessSample& sample : samples) {
    ServerReport::Load& load = loads[sample.pid];
    if (sample.time_us >= load.time_us) load = {sample.time_us, sample.sm, sample.memory, sample.encoder, sample.decoder};
  }
  return loads;
}

}  // namespace tessera
