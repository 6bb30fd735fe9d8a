// The part of libnvidia-ml.so.1 about the library and the system. Any thread may call any function.

#include <memory>
#include <string>
#include <utility>

#include "client-stub/nvml/device_list.h"
#include "client-stub/nvml/library.h"
#include "client-stub/nvml/nvml_abi.h"
#include "protocol/base/log.h"

using tessera::MutexLock;
using tessera::nvml::CopyText;
using tessera::nvml::DeviceList;
using tessera::nvml::Library;
using tessera::nvml::List;

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned) {
  Library& library = tessera::nvml::TheLibrary();
  MutexLock lock(library.mutex);
  if (library.initialised++ > 0 && library.list != nullptr) return NVML_SUCCESS;
  tessera::Result<DeviceList> devices = tessera::nvml::ReadDevices();
  if (!devices.ok()) {
    library.initialised = 0;
    tessera::nvml::SayOnce(devices.status());
    return devices.status().code() == tessera::StatusCode::kVersionMismatch ? NVML_ERROR_LIB_RM_VERSION_MISMATCH
                                                                            : NVML_ERROR_DRIVER_NOT_LOADED;
  }
  library.list = std::make_shared<const DeviceList>(std::move(devices).value());
  return NVML_SUCCESS;
}
NVML_EXPORT nvmlReturn_t nvmlInit_v2() { return nvmlInitWithFlags(0); }
NVML_EXPORT nvmlReturn_t nvmlInit() { return nvmlInitWithFlags(0); }

NVML_EXPORT nvmlReturn_t nvmlShutdown() {
  Library& library = tessera::nvml::TheLibrary();
  MutexLock lock(library.mutex);
  if (library.initialised == 0) return NVML_ERROR_UNINITIALIZED;
  if (--library.initialised == 0) library.list.reset();
  return NVML_SUCCESS;
}

NVML_EXPORT const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case 5: return "Already Initialized";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case 8: return "Insufficient External Power";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case 11: return "Interrupt Request Issue";
    case 12: return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case 14: return "Corrupted infoROM";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case 16: return "GPU requires reset";
    case 17: return "GPU access blocked by the operating system";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case 19: return "In use by another client";
    case 20: return "Insufficient Memory";
    case 21: return "No data";
    case 23: return "Insufficient Resources";
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
NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

// Tells the release of the server's kernel driver. An emulated GPU has none. Then it tells the CUDA version, since tools parse a
// dotted number.
NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  const auto list = List();
  if (list == nullptr) return NVML_ERROR_UNINITIALIZED;
  const std::string release = tessera::nvml::DriverRelease();
  if (!release.empty()) return CopyText(release, version, length);
  const int cuda = list->driver_version;
  return CopyText(std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10) + ".0", version, length);
}
// Tells "13.580.159.04" on a host with CUDA 13 and driver 580.159.04.
NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  const auto list = List();
  if (list == nullptr) return NVML_ERROR_UNINITIALIZED;
  const std::string release = tessera::nvml::DriverRelease();
  if (release.empty()) return nvmlSystemGetDriverVersion(version, length);
  return CopyText(std::to_string(list->driver_version / 1000) + "." + release, version, length);
}

// Units are chassis with several GPUs; excluded devices are hidden by the administrator. This host has neither.
static nvmlReturn_t NoneOfThem(unsigned* count) {
  if (List() == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}
NVML_EXPORT nvmlReturn_t nvmlUnitGetCount(unsigned* count) { return NoneOfThem(count); }
NVML_EXPORT nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned* count) { return NoneOfThem(count); }
