// The part of the NVML C ABI that this library serves by hand, declared from NVIDIA's public NVML API Reference. So the toolkit
// of a build machine need not have nvml.h.
#pragma once

#include <cstdint>

#define NVML_EXPORT extern "C" __attribute__((visibility("default")))

using nvmlReturn_t = int;
inline constexpr nvmlReturn_t NVML_SUCCESS = 0;
inline constexpr nvmlReturn_t NVML_ERROR_UNINITIALIZED = 1;
inline constexpr nvmlReturn_t NVML_ERROR_INVALID_ARGUMENT = 2;
inline constexpr nvmlReturn_t NVML_ERROR_NOT_SUPPORTED = 3;
inline constexpr nvmlReturn_t NVML_ERROR_NO_PERMISSION = 4;
inline constexpr nvmlReturn_t NVML_ERROR_NOT_FOUND = 6;
inline constexpr nvmlReturn_t NVML_ERROR_INSUFFICIENT_SIZE = 7;
inline constexpr nvmlReturn_t NVML_ERROR_DRIVER_NOT_LOADED = 9;
inline constexpr nvmlReturn_t NVML_ERROR_TIMEOUT = 10;
inline constexpr nvmlReturn_t NVML_ERROR_FUNCTION_NOT_FOUND = 13;
inline constexpr nvmlReturn_t NVML_ERROR_GPU_IS_LOST = 15;
inline constexpr nvmlReturn_t NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18;
inline constexpr nvmlReturn_t NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25;
inline constexpr nvmlReturn_t NVML_ERROR_UNKNOWN = 999;

inline constexpr unsigned long long NVML_VALUE_NOT_AVAILABLE = ~0ULL;
inline constexpr unsigned NVML_NO_INSTANCE = 0xFFFFFFFF;  // an instance of MIG: the process uses the whole device

// The value of the `version` field in NVML's structs, for a struct of that version.
template <typename Struct>
constexpr unsigned StructVersion(unsigned version) {
  return sizeof(Struct) | version << 24;
}

struct nvmlDevice_st;
using nvmlDevice_t = nvmlDevice_st*;
struct nvmlEventSet_st;
using nvmlEventSet_t = nvmlEventSet_st*;

struct nvmlPciInfo_v2_t {  // version 1 lacks pciSubSystemId and all after it
  char busId[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pciDeviceId;
  unsigned pciSubSystemId;
};

struct nvmlPciInfoExt_v1_t {
  unsigned version;
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pciDeviceId;
  unsigned pciSubSystemId;
  unsigned baseClass;
  unsigned subClass;
  char busId[32];
};

struct nvmlUUID_v1_t {
  unsigned version;
  unsigned type;
  union {
    char str[41];
    unsigned char bytes[16];
  } value;
};
inline constexpr unsigned NVML_UUID_TYPE_ASCII = 1;
inline constexpr unsigned NVML_UUID_TYPE_BINARY = 2;

struct nvmlPciInfo_t {  // nvmlPciInfo_v3_t
  char busIdLegacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pciDeviceId;
  unsigned pciSubSystemId;
  char busId[32];
};

struct nvmlMemory_t {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct nvmlMemory_v2_t {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};

struct nvmlTemperature_v1_t {
  unsigned version;
  int sensorType;
  int temperature;
};

struct nvmlProcessInfo_v1_t {
  unsigned pid;
  unsigned long long usedGpuMemory;
};

struct nvmlProcessInfo_v2_t {  // version 3 is the same
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId;
  unsigned computeInstanceId;
};

struct nvmlProcessDetail_v1_t {
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId;
  unsigned computeInstanceId;
  unsigned long long usedGpuCcProtectedMemory;
};

struct nvmlProcessDetailList_v1_t {
  unsigned version;
  unsigned mode;  // 0 compute, 1 graphics, 2 MPS
  unsigned numProcArrayEntries;
  nvmlProcessDetail_v1_t* procArray;
};

struct nvmlProcessUtilizationSample_t {
  unsigned pid;
  unsigned long long timeStamp;
  unsigned smUtil;
  unsigned memUtil;
  unsigned encUtil;
  unsigned decUtil;
};

struct nvmlUtilization_t {
  unsigned gpu;
  unsigned memory;
};

struct nvmlFieldValue_t {
  unsigned fieldId;
  unsigned scopeId;
  long long timestamp;
  long long latencyUsec;
  unsigned valueType;
  nvmlReturn_t nvmlReturn;
  unsigned long long value;
};
