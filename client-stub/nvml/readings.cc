// The part of libnvidia-ml.so.1 that tells the present state of a device in another form than the server's readings: memory,
// load, fields, and functions with two names. plain_readings.cc has the others.

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "client-stub/nvml/give.h"
#include "client-stub/nvml/nvml_abi.h"

namespace {

using tessera::Reading;
using tessera::ServerQuery;
using tessera::ServerReport;
using tessera::nvml::Ask;
using tessera::nvml::Find;
using tessera::nvml::Found;
using tessera::nvml::Give;
using tessera::nvml::Readings;
using AskFor = tessera::ServerQuery::Ask;

constexpr unsigned kClockTypes = 4;

struct Memory {
  uint64_t total = 0;
  uint64_t used = 0;
  uint64_t reserved = 0;
};

// Always asks anew: a program may have just allocated memory, and wants to know what is left.
nvmlReturn_t ReadMemory(nvmlDevice_t handle, Memory* memory) {
  Readings readings;
  if (const nvmlReturn_t result = Ask(handle, AskFor::kState, &readings, true); result != NVML_SUCCESS) return result;
  const uint64_t* total = readings.Find(Reading::kMemoryTotalBytes);
  const uint64_t* used = readings.Find(Reading::kMemoryUsedBytes);
  const uint64_t* reserved = readings.Find(Reading::kMemoryReservedBytes);
  if (total == nullptr || used == nullptr) return NVML_ERROR_NOT_SUPPORTED;
  *memory = {*total, *used, reserved == nullptr ? 0 : *reserved};
  return NVML_SUCCESS;
}

// Writes a list of clocks. The reading `list` is its length; the clocks follow it. As in NVML, `*count` is the room for them and
// becomes the length; if there is too little room it returns NVML_ERROR_INSUFFICIENT_SIZE.
nvmlReturn_t PutClocks(const Readings& readings, Reading list, unsigned* count, unsigned* clocks) {
  const uint64_t* length = readings.Find(list);
  if (length == nullptr) return NVML_ERROR_NOT_SUPPORTED;
  const unsigned room = clocks == nullptr ? 0 : *count;
  *count = static_cast<unsigned>(*length);
  if (*count > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < *count; ++i) {
    const uint64_t* mhz = readings.Find(list + 1 + i);
    if (mhz == nullptr) return NVML_ERROR_UNKNOWN;
    clocks[i] = static_cast<unsigned>(*mhz);
  }
  return NVML_SUCCESS;
}

using Answers = std::vector<ServerReport::FieldValue>;

// Writes the answers, which are in the order of `fields`. A field that the server does not tell is NVML_ERROR_NOT_SUPPORTED.
void PutFields(const Answers& answers, std::span<nvmlFieldValue_t> fields) {
  for (size_t i = 0; i < fields.size(); ++i) {
    nvmlFieldValue_t& out = fields[i];
    out.nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    if (i >= answers.size() || answers[i].field != ServerQuery::Field{out.fieldId, out.scopeId}) continue;
    out.nvmlReturn = static_cast<nvmlReturn_t>(answers[i].result);
    out.timestamp = answers[i].time_us;
    out.latencyUsec = answers[i].latency_us;
    out.valueType = answers[i].type;
    out.value = answers[i].value;
  }
}

// Whether all `fields` are states of links.
bool AreLinkStates(std::span<const nvmlFieldValue_t> fields) {
  return std::ranges::all_of(fields, [](const nvmlFieldValue_t& field) {
    return field.fieldId == tessera::kLinkStateField && field.scopeId < tessera::kLinksMax;
  });
}

// Gets the answers to `fields`, all of which are states of links.
nvmlReturn_t AskLinkStates(size_t device, std::span<const nvmlFieldValue_t> fields, Answers* answers) {
  std::shared_ptr<const tessera::nvml::DeviceState> state;
  const nvmlReturn_t result = tessera::nvml::State(AskFor::kLinks, device, false, &state);
  if (result != NVML_SUCCESS) return result;
  for (const nvmlFieldValue_t& field : fields) {
    answers->push_back(field.scopeId < state->fields.size() ? state->fields[field.scopeId] : ServerReport::FieldValue{});
  }
  return NVML_SUCCESS;
}

nvmlReturn_t AskFields(const Found& found, std::span<const nvmlFieldValue_t> fields, Answers* answers) {
  std::vector<ServerQuery::Field> asked;
  for (const nvmlFieldValue_t& field : fields) asked.push_back({field.fieldId, field.scopeId});
  auto state = tessera::nvml::ReadState(*found.list, AskFor::kFields, found.index, std::move(asked));
  if (!state.ok()) {
    tessera::nvml::SayOnce(state.status());
    return NVML_ERROR_GPU_IS_LOST;
  }
  *answers = std::move(state.value().fields);
  return NVML_SUCCESS;
}

}  // namespace

// --- memory and load ---

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t* out) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  Memory memory;
  if (const nvmlReturn_t result = ReadMemory(handle, &memory); result != NVML_SUCCESS) return result;
  // Version 1 of the struct has no reserved memory, so it counts as used.
  const uint64_t used = std::min(memory.used + memory.reserved, memory.total);
  *out = {memory.total, memory.total - used, used};
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t* out) {
  constexpr unsigned kVersion = StructVersion<nvmlMemory_v2_t>(2);
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (out->version != kVersion) return NVML_ERROR_FUNCTION_NOT_FOUND;  // measured with driver 580
  Memory memory;
  if (const nvmlReturn_t result = ReadMemory(handle, &memory); result != NVML_SUCCESS) return result;
  const uint64_t taken = std::min(memory.used + memory.reserved, memory.total);
  *out = {kVersion, memory.total, memory.reserved, memory.total - taken, memory.used};
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t* out) {
  unsigned* const gpu = out == nullptr ? nullptr : &out->gpu;
  if (const nvmlReturn_t result = Give(handle, AskFor::kState, Reading::kGpuPercent, gpu); result != NVML_SUCCESS) return result;
  // An emulated GPU has no memory controller whose load could be told apart.
  if (Give(handle, AskFor::kState, Reading::kMemoryPercent, &out->memory) != NVML_SUCCESS) out->memory = 0;
  return NVML_SUCCESS;
}

// --- other names and forms of readings ---

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t handle, nvmlTemperature_v1_t* out) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (out->version != StructVersion<nvmlTemperature_v1_t>(1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (out->sensorType != 0) return NVML_ERROR_INVALID_ARGUMENT;
  return Give(handle, AskFor::kState, Reading::kTemperatureCelsius, &out->temperature);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t handle, unsigned* state) {
  return Give(handle, AskFor::kState, Reading::kPerformanceState, state);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t handle, unsigned long long* reasons) {
  return Give(handle, AskFor::kState, Reading::kThrottleReasons, reasons);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t handle, unsigned long long* reasons) {
  return Give(handle, AskFor::kDetails, Reading::kThrottleReasonsSupported, reasons);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t handle, unsigned type, unsigned which, unsigned* mhz) {
  constexpr struct {
    AskFor ask;
    Reading first;
  } kClocks[] = {{AskFor::kState, Reading::kClockMhz},
                 {AskFor::kDetails, Reading::kApplicationsClockMhz},
                 {AskFor::kDetails, Reading::kApplicationsClockDefaultMhz},
                 {AskFor::kDetails, Reading::kCustomerBoostClockMhz}};
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (type >= kClockTypes || which >= std::size(kClocks)) return NVML_ERROR_INVALID_ARGUMENT;
  return Give(handle, kClocks[which].ask, kClocks[which].first + type, mhz);
}

// --- clocks that a device could run at ---

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t handle, unsigned* count, unsigned* clocks_mhz) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  Readings readings;
  if (const nvmlReturn_t result = Ask(handle, AskFor::kDetails, &readings); result != NVML_SUCCESS) return result;
  return PutClocks(readings, Reading::kMemoryClocksMhz, count, clocks_mhz);
}

// NVML_ERROR_NOT_FOUND: the memory has no such clock.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t handle, unsigned memory_mhz, unsigned* count,
                                                              unsigned* clocks_mhz) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  Readings readings;
  if (const nvmlReturn_t result = Ask(handle, AskFor::kDetails, &readings); result != NVML_SUCCESS) return result;
  const uint64_t* length = readings.Find(Reading::kMemoryClocksMhz);
  if (length == nullptr) return NVML_ERROR_NOT_SUPPORTED;
  for (uint32_t i = 0; i < *length; ++i) {
    const uint64_t* mhz = readings.Find(Reading::kMemoryClocksMhz + 1 + i);
    if (mhz == nullptr || *mhz != memory_mhz) continue;
    return PutClocks(readings, Reading::kGraphicsClocksMhz + i * tessera::kClocksPlaces, count, clocks_mhz);
  }
  return NVML_ERROR_NOT_FOUND;
}

// --- fields ---

// Each field has its own result. Fields are asked for anew, since each call wants others. States of links are the exception: they
// come with the answer about links, which is kept for a moment. NCCL asks for them one by one, between other questions about the
// same link.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t handle, int count, nvmlFieldValue_t* values) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (count < 0 || values == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  std::span<nvmlFieldValue_t> rest(values, static_cast<size_t>(count));
  while (!rest.empty()) {
    const std::span<nvmlFieldValue_t> some = rest.first(std::min(rest.size(), ServerQuery::kFieldsMax));
    rest = rest.subspan(some.size());
    Answers answers;
    const nvmlReturn_t result =
        AreLinkStates(some) ? AskLinkStates(found.index, some, &answers) : AskFields(found, some, &answers);
    if (result != NVML_SUCCESS) return result;
    PutFields(answers, some);
  }
  return NVML_SUCCESS;
}
