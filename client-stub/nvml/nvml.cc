// libnvidia-ml.so.1: what PyTorch, JAX, NCCL and nvidia-ml-py ask of the library itself and of what its devices are. How they
// are at the moment is in readings.cc. Every function that NVML has and that is not answered is absent, or says
// NVML_ERROR_NOT_SUPPORTED where callers do not look first. Any thread may call anything.

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "client-stub/nvml/device_list.h"
#include "client-stub/nvml/library.h"
#include "client-stub/nvml/nvml_abi.h"
#include "protocol/base/log.h"

namespace {

using tessera::MutexLock;
using tessera::Reading;
using tessera::nvml::CopyText;
using tessera::nvml::Device;
using tessera::nvml::DeviceList;
using tessera::nvml::Find;
using tessera::nvml::List;
using tessera::nvml::NotShown;

// A handle is the device's number plus one, so that none is null.
nvmlDevice_t HandleOf(size_t index) { return reinterpret_cast<nvmlDevice_t>(index + 1); }

// Finds the first device for which `matches` holds.
template <typename Matches>
nvmlReturn_t FindBy(nvmlDevice_t* handle, Matches matches) {
  const auto list = List();
  if (list == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (handle == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (size_t i = 0; i < list->devices.size(); ++i) {
    if (!matches(list->devices[i])) continue;
    *handle = HandleOf(i);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

}  // namespace

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned) {
  MutexLock lock(tessera::nvml::TheLibrary().mutex);
  if (tessera::nvml::TheLibrary().initialised++ > 0 && tessera::nvml::TheLibrary().list != nullptr) return NVML_SUCCESS;
  tessera::Result<DeviceList> devices = tessera::nvml::ReadDevices();
  if (!devices.ok()) {
    tessera::nvml::TheLibrary().initialised = 0;
    // At debug alone: whoever asks has usually asked the driver as well, which has said it.
    tessera::LogDebug("{}", devices.status().message());
    return devices.status().code() == tessera::StatusCode::kVersionMismatch ? NVML_ERROR_LIB_RM_VERSION_MISMATCH
                                                                           : NVML_ERROR_DRIVER_NOT_LOADED;
  }
  tessera::nvml::TheLibrary().list = std::make_shared<const DeviceList>(std::move(devices).value());
  return NVML_SUCCESS;
}
NVML_EXPORT nvmlReturn_t nvmlInit_v2() { return nvmlInitWithFlags(0); }
NVML_EXPORT nvmlReturn_t nvmlInit() { return nvmlInitWithFlags(0); }

NVML_EXPORT nvmlReturn_t nvmlShutdown() {
  MutexLock lock(tessera::nvml::TheLibrary().mutex);
  if (tessera::nvml::TheLibrary().initialised == 0) return NVML_ERROR_UNINITIALIZED;
  if (--tessera::nvml::TheLibrary().initialised == 0) tessera::nvml::TheLibrary().list.reset();
  return NVML_SUCCESS;
}

NVML_EXPORT const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
  }
}

// --- the system ---

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  const auto list = List();
  if (list == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *version = list->driver_version;
  return NVML_SUCCESS;
}
NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

// Of the server's kernel driver. An emulated GPU has none: then it is the CUDA version, since tools parse a dotted number.
NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  const auto list = List();
  if (list == nullptr) return NVML_ERROR_UNINITIALIZED;
  const std::string release = tessera::nvml::DriverRelease();
  if (!release.empty()) return CopyText(release, version, length);
  const int cuda = list->driver_version;
  return CopyText(std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10) + ".0", version, length);
}
// "13.580.159.04" on a host with CUDA 13 and that driver.
NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  const auto list = List();
  if (list == nullptr) return NVML_ERROR_UNINITIALIZED;
  const std::string release = tessera::nvml::DriverRelease();
  if (release.empty()) return nvmlSystemGetDriverVersion(version, length);
  return CopyText(std::to_string(list->driver_version / 1000) + "." + release, version, length);
}
NVML_EXPORT nvmlReturn_t nvmlSystemGetConfComputeState(void*) { return NVML_ERROR_NOT_SUPPORTED; }
NVML_EXPORT nvmlReturn_t nvmlSystemGetConfComputeSettings(void*) { return NVML_ERROR_NOT_SUPPORTED; }

// --- finding devices ---

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  const auto list = List();
  if (list == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned>(list->devices.size());
  return NVML_SUCCESS;
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  const auto list = List();
  if (list == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (device == nullptr || index >= list->devices.size()) return NVML_ERROR_INVALID_ARGUMENT;
  *device = HandleOf(index);
  return NVML_SUCCESS;
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  if (uuid == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return FindBy(device, [uuid](const Device& candidate) { return candidate.uuid == uuid; });
}

// Takes "domain:bus:device.function" with a domain of four or eight digits, or none.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* device) {
  if (id == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  if (std::sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3) {
    domain = 0;
    if (std::sscanf(id, "%x:%x", &bus, &slot) != 2) return NVML_ERROR_INVALID_ARGUMENT;
  }
  return FindBy(device, [=](const Device& candidate) {
    return candidate.pci_domain == domain && candidate.pci_bus == bus && candidate.pci_device == slot;
  });
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned* index) {
  std::shared_ptr<const DeviceList> list;
  const Device* device;
  if (const nvmlReturn_t result = Find(handle, &list, &device); result != NVML_SUCCESS) return result;
  if (index == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *index = static_cast<unsigned>(reinterpret_cast<size_t>(handle) - 1);
  return NVML_SUCCESS;
}
// --- what a device is ---

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char* name, unsigned length) {
  std::shared_ptr<const DeviceList> list;
  const Device* device;
  if (const nvmlReturn_t result = Find(handle, &list, &device); result != NVML_SUCCESS) return result;
  return CopyText(device->name, name, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char* uuid, unsigned length) {
  std::shared_ptr<const DeviceList> list;
  const Device* device;
  if (const nvmlReturn_t result = Find(handle, &list, &device); result != NVML_SUCCESS) return result;
  return CopyText(device->uuid, uuid, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t* pci) {
  std::shared_ptr<const DeviceList> list;
  const Device* device;
  if (const nvmlReturn_t result = Find(handle, &list, &device); result != NVML_SUCCESS) return result;
  if (pci == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *pci = {};
  pci->domain = device->pci_domain;
  pci->bus = device->pci_bus;
  pci->device = device->pci_device;
  std::snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04x:%02x:%02x.0", pci->domain & 0xFFFF, pci->bus & 0xFF,
                pci->device & 0xFF);
  std::snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int* major, int* minor) {
  std::shared_ptr<const DeviceList> list;
  const Device* device;
  if (const nvmlReturn_t result = Find(handle, &list, &device); result != NVML_SUCCESS) return result;
  if (major == nullptr || minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *major = device->compute_major;
  *minor = device->compute_minor;
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t handle, unsigned*) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t handle, unsigned* bits) {
  std::shared_ptr<const DeviceList> list;
  const Device* device;
  if (const nvmlReturn_t result = Find(handle, &list, &device); result != NVML_SUCCESS) return result;
  if (bits == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *bits = device->memory_bus_bits;
  return NVML_SUCCESS;
}

// --- what forwarding does not show of the hardware: links between GPUs, the server's processors ---

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t handle, unsigned, int*) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t handle, unsigned, nvmlPciInfo_t*) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t handle, unsigned, nvmlPciInfo_t*) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t handle, unsigned, int*) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t handle, unsigned, int, unsigned*) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t handle, unsigned, unsigned*) { return NotShown(handle); }
// A device reaches itself: NCCL asks for every pair, and gives up when one has no answer.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t handle, nvmlDevice_t other, int, int* status) {
  std::shared_ptr<const DeviceList> list;
  const Device* device;
  if (const nvmlReturn_t result = Find(handle, &list, &device); result != NVML_SUCCESS) return result;
  if (status == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (handle != other) return NotShown(handle);
  *status = 0;  // NVML_P2P_STATUS_OK
  return NVML_SUCCESS;
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t handle, void*) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t handle, void*) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t handle, void*) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t handle, nvmlDevice_t, int*) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t handle, unsigned, unsigned long*) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t handle, char*, unsigned) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t handle, char*, unsigned) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t handle, nvmlBAR1Memory_t*) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, int, int, unsigned long long*) { return NotShown(handle); }
NVML_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t handle, unsigned*, unsigned*) { return NotShown(handle); }

// Each field is answered by itself: none of them is shown.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t handle, int count, nvmlFieldValue_t* values) {
  std::shared_ptr<const DeviceList> list;
  const Device* device;
  if (const nvmlReturn_t result = Find(handle, &list, &device); result != NVML_SUCCESS) return result;
  if (count < 0 || (count > 0 && values == nullptr)) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < count; ++i) values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
  return NVML_SUCCESS;
}
