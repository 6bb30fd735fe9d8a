// A libnvidia-ml.so.1 of an imaginary driver: fixed answers for one device or two, and every process of the daemon uses 7 MiB of
// it, and has 61 % of its time (FAKE_NVML_SM_PERCENT). To whoever has asked how busy they are, as the audit does, it tells
// FAKE_NVML_PROCESS_MIB; others measure contexts. Stands in for
// the real one in nvml_test.py, nvml_readings_test.py, nvml_links_test.py and audit_test.py, where the daemon serves the emulator
// as if it were a driver of that machine.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#define FAKE extern "C" __attribute__((visibility("default"))) int

namespace {
char the_devices[2];  // two at most, told apart by the last digit of their UUIDs, and have serial numbers of their own
bool the_loads_were_asked_for = false;

struct Memory {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct ProcessSample {
  unsigned pid;
  unsigned long long time_us;
  unsigned sm, memory, encoder, decoder;
};
struct FieldValue {
  unsigned field, scope;
  long long time_us, latency_us;
  unsigned type;
  int result;
  unsigned long long value;
};
struct PciInfo {
  char legacy_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};
constexpr int kSuccess = 0;
constexpr int kNotFound = 6;
constexpr int kInvalid = 2;
constexpr int kNotSupported = 3;
constexpr int kVersionMismatch = 25;

// A device has four links: to the other device, to a switch, to a switch that the machine does not see, and one that is down.
constexpr unsigned kLinks = 4;
constexpr unsigned kLinkStateField = 165;

int Tell(unsigned* out, unsigned value) {
  *out = value;
  return kSuccess;
}

int TellText(const std::string& text, char* out, unsigned size) {
  return std::snprintf(out, size, "%s", text.c_str()) < static_cast<int>(size) ? kSuccess : 7;
}

// The pids of the daemon's processes, the monitor's own among them.
template <typename Put>
unsigned ForEachProcess(unsigned room, Put put) {
  const std::string daemon = std::to_string(getppid());
  std::ifstream children("/proc/" + daemon + "/task/" + daemon + "/children");
  unsigned found = 0;
  for (unsigned pid; found < room && children >> pid; ++found) put(found, pid);
  return found;
}
}  // namespace

FAKE nvmlInit_v2() { return kSuccess; }
FAKE nvmlSystemGetDriverVersion(char* text, unsigned size) {
  return std::snprintf(text, size, "%s", "580.1.2") > 0 ? kSuccess : 1;
}
FAKE nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (std::strncmp(uuid, "GPU-", 4) != 0 || std::strlen(uuid) != 40) return kNotFound;
  *device = &the_devices[uuid[39] % 2];
  return kSuccess;
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
  const char* const said = the_loads_were_asked_for ? std::getenv("FAKE_NVML_PROCESS_MIB") : nullptr;
  const unsigned long long mib = said == nullptr ? 7 : std::strtoull(said, nullptr, 10);
  *count = ForEachProcess(*count, [&](unsigned i, unsigned pid) { processes[i] = {pid, mib << 20, ~0U, ~0U}; });
  return kSuccess;
}
// Two samples of each process; the second one is older.
FAKE nvmlDeviceGetProcessUtilization(void*, ProcessSample* samples, unsigned* count, unsigned long long) {
  the_loads_were_asked_for = true;
  if (std::getenv("FAKE_NVML_KNOWS_NO_PROCESSES") != nullptr) return kNotSupported;
  const char* const said = std::getenv("FAKE_NVML_SM_PERCENT");
  const unsigned percent = said == nullptr ? 61 : static_cast<unsigned>(std::strtoul(said, nullptr, 10));
  *count = 2 * ForEachProcess(*count / 2, [&](unsigned i, unsigned pid) {
             samples[2 * i] = {pid, 5'000'000, percent, 7, 0, 1};
             samples[2 * i + 1] = {pid, 4'000'000, 99, 99, 99, 99};
           });
  return kSuccess;
}

// --- one function for each kind of line of device_readings.def ---

FAKE nvmlDeviceGetPowerManagementLimitConstraints(void*, unsigned* low, unsigned* high) {
  return Tell(low, 200'000) + Tell(high, 700'000);
}
FAKE nvmlDeviceGetEncoderStats(void*, unsigned* a, unsigned* b, unsigned* c) { return Tell(a, 1) + Tell(b, 2) + Tell(c, 3); }
FAKE nvmlDeviceGetRemappedRows(void*, unsigned* a, unsigned* b, unsigned* c, unsigned* d) {
  return Tell(a, 4) + Tell(b, 5) + Tell(c, 6) + Tell(d, 7);
}
FAKE nvmlDeviceGetRowRemapperHistogram(void*, unsigned* words) {
  for (unsigned i = 0; i < 5; ++i) words[i] = 640 + i;
  return kSuccess;
}
FAKE nvmlDeviceGetBAR1MemoryInfo(void*, unsigned long long* words) {
  for (unsigned i = 0; i < 3; ++i) words[i] = (1ULL << 40) + i;
  return kSuccess;
}
FAKE nvmlDeviceGetMarginTemperature(void*, int* out) {
  if (out[0] != (8 | 1 << 24)) return kVersionMismatch;
  out[1] = -3;
  return kSuccess;
}
FAKE nvmlDeviceGetPdi(void*, unsigned long long* out) {
  if ((out[0] & 0xFFFFFFFF) != (16 | 1 << 24)) return kVersionMismatch;
  out[1] = 0x123456789abcdef0;
  return kSuccess;
}
FAKE nvmlDeviceGetTemperatureThreshold(void*, int which, unsigned* out) {
  return which < 2 ? Tell(out, 90 + which) : kNotSupported;
}
FAKE nvmlDeviceGetViolationStatus(void*, int which, unsigned long long* out) {
  out[0] = 1000 + which;
  out[1] = 2000 + which;
  return kSuccess;
}
FAKE nvmlDeviceGetTotalEccErrors(void*, int type, int counter, unsigned long long* out) {
  *out = 10 * type + counter;
  return kSuccess;
}
FAKE nvmlDeviceGetDetailedEccErrors(void*, int type, int counter, unsigned long long* out) {
  for (int i = 0; i < 4; ++i) out[i] = 100 * type + 10 * counter + i;
  return kSuccess;
}
FAKE nvmlDeviceGetMemoryErrorCounter(void*, int type, int counter, int where, unsigned long long* out) {
  *out = 1000 + 100 * type + 10 * counter + where;
  return kSuccess;
}
FAKE nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* out) {
  *out = 1ULL << 35;
  return kSuccess;
}
FAKE nvmlDeviceGetSupportedMemoryClocks(void*, unsigned* count, unsigned* clocks) {
  *count = 2;
  return Tell(&clocks[0], 3201) + Tell(&clocks[1], 2619);
}
FAKE nvmlDeviceGetSupportedGraphicsClocks(void*, unsigned memory_mhz, unsigned* count, unsigned* clocks) {
  if (memory_mhz != 2619) return kNotSupported;
  *count = 3;
  return Tell(&clocks[0], 1980) + Tell(&clocks[1], 1965) + Tell(&clocks[2], 345);
}
FAKE nvmlDeviceGetPcieThroughput(void*, int which, unsigned* out) { return Tell(out, 70 + which); }
FAKE nvmlDeviceGetSerial(void* device, char* text, unsigned size) {
  return TellText(device == &the_devices[0] ? "0123456" : "0123457", text, size);
}
FAKE nvmlDeviceGetInforomVersion(void*, int which, char* text, unsigned size) {
  return which == 3 ? kNotSupported : TellText("G520." + std::to_string(which), text, size);
}
FAKE nvmlDeviceGetGspFirmwareVersion(void*, char* text) { return TellText("580.1.2", text, 64); }
FAKE nvmlDeviceGetPciInfo_v3(void*, unsigned* pci) {
  std::memset(pci, 0, 68);
  pci[7] = 0x233510de;
  pci[8] = 0x18be10de;
  return kSuccess;
}
FAKE nvmlDeviceGetPciInfoExt(void*, unsigned* pci) {
  if (pci[0] != (64 | 1 << 24)) return kVersionMismatch;
  pci[6] = 3;
  pci[7] = 2;
  return kSuccess;
}
// The time of the states of links is the number of the question.
FAKE nvmlDeviceGetFieldValues(void*, int count, FieldValue* values) {
  static long long questions = 0;
  ++questions;
  for (int i = 0; i < count; ++i) {
    FieldValue& value = values[i];
    if (value.scope >= 18 && value.scope != ~0U) abort();  // the real one damages its memory
    value.result = value.field < 200 ? kSuccess : kNotSupported;
    value.time_us = 123;
    value.latency_us = 4;
    value.type = 3;
    value.value = (1ULL << 40) + 10 * value.field + value.scope;
    if (value.field != kLinkStateField) continue;
    value.result = value.scope < kLinks ? kSuccess : kInvalid;
    value.time_us = questions;
    value.value = value.scope == 3 ? 0 : 1;
  }
  return kSuccess;
}

// --- links ---

FAKE nvmlDeviceGetNvLinkState(void*, unsigned link, unsigned* out) {
  return link < kLinks ? Tell(out, link == 3 ? 0 : 1) : kInvalid;
}
FAKE nvmlDeviceGetNvLinkVersion(void*, unsigned link, unsigned* out) { return link < kLinks ? Tell(out, 7 + link) : kInvalid; }
FAKE nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned link, unsigned* out) {
  return link < 3 ? Tell(out, link == 0 ? 0 : 2) : kNotSupported;
}
FAKE nvmlDeviceGetNvLinkCapability(void*, unsigned link, unsigned kind, unsigned* out) {
  return link < kLinks ? Tell(out, 10 * link + kind) : kInvalid;
}
FAKE nvmlDeviceGetNvLinkErrorCounter(void*, unsigned link, unsigned kind, unsigned long long* out) {
  if (link >= kLinks) return kInvalid;
  *out = (1ULL << 33) + 10 * link + kind;
  return kSuccess;
}
FAKE nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* pci) {
  if (link >= 3) return kNotSupported;
  const unsigned bus = link == 0 ? (device == &the_devices[0] ? 2 : 1) : 5;
  *pci = {{}, 0, bus, 0, 0x22A310DE, 0xABCD, {}};
  if (link == 2) {
    *pci = {"FFFFFFF:FFFF:FF", 0xFFFFFFF, 0xFFFF, 0xFF, 0, 0, "0FFFFFFF:FFFF:FF.0"};
    return kSuccess;
  }
  std::snprintf(pci->legacy_id, sizeof(pci->legacy_id), "0000:%02X:00.0", bus & 0xFF);
  std::snprintf(pci->id, sizeof(pci->id), "00000000:%02X:00.0", bus);
  return kSuccess;
}
FAKE nvmlDeviceGetGpuFabricInfo(void*, unsigned* words) {
  for (unsigned i = 0; i < 7; ++i) words[i] = 100 + i;
  return kSuccess;
}
FAKE nvmlDeviceGetGpuFabricInfoV(void*, unsigned* words) {
  if (words[0] != (36 | 2 << 24) && words[0] != (40 | 3 << 24)) return kVersionMismatch;
  for (unsigned i = 1; i < (words[0] & 0xFF) / 4; ++i) words[i] = 200 + (words[0] >> 24) * 100 + i;
  return kSuccess;
}
FAKE nvmlDeviceGetNvLinkInfo(void*, unsigned* words) {
  if (words[0] != (8 | 1 << 24) && words[0] != (1612 | 2U << 24)) return kVersionMismatch;
  for (unsigned i = 1; i < (words[0] & 0xFFFF) / 4; ++i) words[i] = 1000 + i;
  return kSuccess;
}
// Knows one form alone.
FAKE nvmlDeviceGetPlatformInfo(void*, unsigned* words) {
  if (words[0] != (44 | 2 << 24)) return kVersionMismatch;
  for (unsigned i = 1; i < 11; ++i) words[i] = 50 + i;
  return kSuccess;
}
FAKE nvmlDeviceGetTopologyCommonAncestor(void* device, void* other, unsigned* level) {
  return Tell(level, device == other ? 0 : 40);
}
// The other device is in the same node; in the system there are both. Careless with the caller's memory.
FAKE nvmlDeviceGetTopologyNearestGpus(void* device, unsigned level, unsigned* count, void** devices) {
  const unsigned found = level == 40 ? 1 : level == 50 ? 2 : 0;
  if (*count == 0) return Tell(count, found);
  if (*count != found) return kInvalid;
  std::fill_n(devices, 64, nullptr);
  devices[0] = device == &the_devices[0] ? &the_devices[1] : &the_devices[0];
  if (found == 2) devices[1] = device;
  return kSuccess;
}
FAKE nvmlDeviceGetP2PStatus(void*, void*, unsigned what, unsigned* status) {
  return what == 2 || what == 4 ? Tell(status, what == 2 ? 0 : 1) : kInvalid;
}
