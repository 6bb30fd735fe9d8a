#include "server/worker/snapshot_builder.h"

#include <cuda.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "generated/driver_table.h"

namespace tessera {
namespace {

// Attributes run from 1 to the last that this cuda.h names.
constexpr int kAttributesEnd = CU_DEVICE_ATTRIBUTE_MAX;
constexpr int kP2pAttributesLast = CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED;

Status Failed(const char* call, CUdevice device, CUresult result) {
  return Status(StatusCode::kNotFound,
                fmt::format("{} of device {} failed with CUDA error {}", call, device, static_cast<int>(result)));
}

Result<StreamPriorities> AskPriorities(const DriverTable& driver, CUdevice device, const CUuuid& uuid) {
  StreamPriorities priorities;
  std::memcpy(priorities.uuid.data(), uuid.bytes, priorities.uuid.size());
  CUcontext before = nullptr;
  CUcontext context = nullptr;
  driver.cuCtxGetCurrent(&before);
  CUresult result = driver.cuDevicePrimaryCtxRetain(&context, device);
  if (result != CUDA_SUCCESS) return Failed("cuDevicePrimaryCtxRetain", device, result);
  result = driver.cuCtxSetCurrent(context);
  if (result == CUDA_SUCCESS) result = driver.cuCtxGetStreamPriorityRange(&priorities.least, &priorities.greatest);
  driver.cuCtxSetCurrent(before);
  driver.cuDevicePrimaryCtxRelease_v2(device);
  if (result != CUDA_SUCCESS) return Failed("cuCtxGetStreamPriorityRange", device, result);
  return priorities;
}

Status FillDevice(const DriverTable& driver, CUdevice device, const std::vector<StreamPriorities>& known,
                  DeviceSnapshot::Device* out) {
  char text[DeviceSnapshot::kTextBytesMax] = {};
  CUresult result = driver.cuDeviceGetName(text, sizeof(text) - 1, device);
  if (result != CUDA_SUCCESS) return Failed("cuDeviceGetName", device, result);
  out->name = text;
  CUuuid uuid{};
  result = driver.cuDeviceGetUuid(&uuid, device);
  if (result != CUDA_SUCCESS) return Failed("cuDeviceGetUuid", device, result);
  std::memcpy(out->uuid, uuid.bytes, sizeof(out->uuid));
  CUuuid uuid_v2 = uuid;  // of a driver that has no second form (before 11.4)
  if (driver.cuDeviceGetUuid_v2 != nullptr) {
    result = driver.cuDeviceGetUuid_v2(&uuid_v2, device);
    if (result != CUDA_SUCCESS) return Failed("cuDeviceGetUuid_v2", device, result);
  }
  std::memcpy(out->uuid_v2, uuid_v2.bytes, sizeof(out->uuid_v2));
  size_t total_bytes = 0;
  result = driver.cuDeviceTotalMem_v2(&total_bytes, device);
  if (result != CUDA_SUCCESS) return Failed("cuDeviceTotalMem_v2", device, result);
  out->total_bytes = total_bytes;
  std::memset(text, 0, sizeof(text));
  result = driver.cuDeviceGetPCIBusId(text, sizeof(text) - 1, device);
  if (result != CUDA_SUCCESS) return Failed("cuDeviceGetPCIBusId", device, result);
  out->pci_bus_id = text;
  out->luid_result = CUDA_ERROR_NOT_SUPPORTED;
  if (driver.cuDeviceGetLuid != nullptr) {
    char luid[8] = {};
    unsigned node_mask = 0;
    out->luid_result = driver.cuDeviceGetLuid(luid, &node_mask, device);
    if (out->luid_result == CUDA_SUCCESS) {
      std::memcpy(out->luid, luid, sizeof(out->luid));
      out->luid_node_mask = node_mask;
    }
  }
  out->attributes.resize(kAttributesEnd);
  for (int i = 1; i < kAttributesEnd; ++i) {
    DeviceSnapshot::Answer& answer = out->attributes[i];
    answer.result = driver.cuDeviceGetAttribute(&answer.value, static_cast<CUdevice_attribute>(i), device);
  }
  const auto found = std::find_if(known.begin(), known.end(), [&](const StreamPriorities& entry) {
    return std::memcmp(entry.uuid.data(), uuid_v2.bytes, entry.uuid.size()) == 0;
  });
  StreamPriorities priorities;
  if (found != known.end()) {
    priorities = *found;
  } else {
    Result<StreamPriorities> asked = AskPriorities(driver, device, uuid_v2);
    if (!asked.ok()) return asked.status();
    priorities = *asked;
  }
  out->least_stream_priority = priorities.least;
  out->greatest_stream_priority = priorities.greatest;
  return Status::Ok();
}

Result<std::vector<CUdevice>> Devices(const DriverTable& driver) {
  int count = 0;
  const CUresult result = driver.cuDeviceGetCount(&count);
  if (result != CUDA_SUCCESS) return Failed("cuDeviceGetCount", 0, result);
  if (count == 0) return Status(StatusCode::kNotFound, "the driver has no device");
  if (count > static_cast<int>(DeviceSnapshot::kDevicesMax)) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("{} devices are more than the {} a session can have: set CUDA_VISIBLE_DEVICES", count,
                              DeviceSnapshot::kDevicesMax));
  }
  std::vector<CUdevice> devices(count);
  for (int i = 0; i < count; ++i) {
    if (const CUresult got = driver.cuDeviceGet(&devices[i], i); got != CUDA_SUCCESS) return Failed("cuDeviceGet", i, got);
  }
  return devices;
}

}  // namespace

std::string FormatPriorities(const std::vector<StreamPriorities>& priorities) {
  std::string text;
  for (const StreamPriorities& entry : priorities) {
    if (!text.empty()) text += ',';
    for (const uint8_t byte : entry.uuid) text += fmt::format("{:02x}", byte);
    text += fmt::format(":{}:{}", entry.least, entry.greatest);
  }
  return text;
}

std::vector<StreamPriorities> ParsePriorities(std::string_view text) {
  std::vector<StreamPriorities> priorities;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string entry(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    StreamPriorities parsed;
    char digits[33] = {};
    if (std::sscanf(entry.c_str(), "%32[0-9a-f]:%d:%d", digits, &parsed.least, &parsed.greatest) != 3) continue;
    if (std::strlen(digits) != 32) continue;
    for (size_t i = 0; i < parsed.uuid.size(); ++i) {
      unsigned byte = 0;
      std::sscanf(digits + 2 * i, "%2x", &byte);
      parsed.uuid[i] = static_cast<uint8_t>(byte);
    }
    priorities.push_back(parsed);
  }
  return priorities;
}

Result<std::vector<StreamPriorities>> AskPriorities(const DriverTable& driver) {
  Result<std::vector<CUdevice>> devices = Devices(driver);
  if (!devices.ok()) return devices.status();
  std::vector<StreamPriorities> priorities;
  for (const CUdevice device : *devices) {
    CUuuid uuid{};
    const auto get_uuid = driver.cuDeviceGetUuid_v2 != nullptr ? driver.cuDeviceGetUuid_v2 : driver.cuDeviceGetUuid;
    if (const CUresult result = get_uuid(&uuid, device); result != CUDA_SUCCESS) {
      return Failed("cuDeviceGetUuid", device, result);
    }
    Result<StreamPriorities> asked = AskPriorities(driver, device, uuid);
    if (!asked.ok()) return asked.status();
    priorities.push_back(*asked);
  }
  return priorities;
}

Result<DeviceSnapshot> BuildSnapshot(const DriverTable& driver, const std::vector<StreamPriorities>& known) {
  Result<std::vector<CUdevice>> devices = Devices(driver);
  if (!devices.ok()) return devices.status();
  DeviceSnapshot snapshot;
  if (const CUresult result = driver.cuDriverGetVersion(&snapshot.driver_version); result != CUDA_SUCCESS) {
    return Failed("cuDriverGetVersion", 0, result);
  }
  snapshot.devices.resize(devices->size());
  for (size_t i = 0; i < devices->size(); ++i) {
    RETURN_IF_ERROR(FillDevice(driver, (*devices)[i], known, &snapshot.devices[i]));
  }
  snapshot.p2p_attributes = kP2pAttributesLast;
  snapshot.p2p.resize(devices->size() * devices->size() * kP2pAttributesLast);
  for (size_t from = 0; from < devices->size(); ++from) {
    for (size_t to = 0; to < devices->size(); ++to) {
      if (from == to) continue;
      for (int a = 1; a <= kP2pAttributesLast; ++a) {
        DeviceSnapshot::Answer& answer = snapshot.p2p[(from * devices->size() + to) * kP2pAttributesLast + (a - 1)];
        answer.result = driver.cuDeviceGetP2PAttribute(&answer.value, static_cast<CUdevice_P2PAttribute>(a), (*devices)[from],
                                                       (*devices)[to]);
      }
    }
  }
  return snapshot;
}

}  // namespace tessera
