// Initialisation and devices.
#include <strings.h>
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "server/emulator/driver/base/options.h"
#include "server/emulator/driver/core/state.h"
#include "server/emulator/driver/device/device_attributes.h"

using namespace tessera::emulator;

namespace {

CUresult DeviceOf(CUdevice number, Device** device) {
  RETURN_IF(!GetDriver().initialized(), CUDA_ERROR_NOT_INITIALIZED);
  *device = GetDriver().device(number);
  return *device == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int Flags) {
  RETURN_IF(Flags != 0, CUDA_ERROR_INVALID_VALUE);
  return GetDriver().Initialize();
}

CUresult cuDriverGetVersion(int* driverVersion) {
  RETURN_IF(driverVersion == nullptr, CUDA_ERROR_INVALID_VALUE);
  *driverVersion = 13000;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(count == nullptr, CUDA_ERROR_INVALID_VALUE);
  *count = GetDriver().device_count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  Device* found;
  RETURN_ON_ERROR(DeviceOf(ordinal, &found));
  RETURN_IF(device == nullptr, CUDA_ERROR_INVALID_VALUE);
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
  Device* device;
  RETURN_ON_ERROR(DeviceOf(dev, &device));
  RETURN_IF(name == nullptr || len <= 0, CUDA_ERROR_INVALID_VALUE);
  snprintf(name, static_cast<size_t>(len), "%s", kDeviceName);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  Device* device;
  RETURN_ON_ERROR(DeviceOf(dev, &device));
  RETURN_IF(uuid == nullptr, CUDA_ERROR_INVALID_VALUE);
  const std::array<char, 16> bytes = UuidOf(GetOptions().machine, GetOptions().devices[static_cast<size_t>(dev)]);
  memcpy(uuid->bytes, bytes.data(), bytes.size());
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) { return cuDeviceGetUuid_v2(uuid, dev); }

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  Device* device;
  RETURN_ON_ERROR(DeviceOf(dev, &device));
  RETURN_IF(bytes == nullptr, CUDA_ERROR_INVALID_VALUE);
  *bytes = device->total_bytes();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  Device* device;
  RETURN_ON_ERROR(DeviceOf(dev, &device));
  RETURN_IF(pi == nullptr, CUDA_ERROR_INVALID_VALUE);
  return DeviceAttribute(*device, attrib, pi) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  Device* device;
  RETURN_ON_ERROR(DeviceOf(dev, &device));
  RETURN_IF(major == nullptr || minor == nullptr, CUDA_ERROR_INVALID_VALUE);
  *major = 9;
  *minor = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop* prop, CUdevice dev) {
  Device* device;
  RETURN_ON_ERROR(DeviceOf(dev, &device));
  RETURN_IF(prop == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto get = [&](CUdevice_attribute attribute) {
    int value = 0;
    DeviceAttribute(*device, attribute, &value);
    return value;
  };
  *prop = {};
  prop->maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  prop->maxThreadsDim[0] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  prop->maxThreadsDim[1] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  prop->maxThreadsDim[2] = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  prop->maxGridSize[0] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  prop->maxGridSize[1] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  prop->maxGridSize[2] = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  prop->sharedMemPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  prop->totalConstantMemory = get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  prop->SIMDWidth = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  prop->memPitch = get(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  prop->regsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  prop->clockRate = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  prop->textureAlign = get(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  Device* device;
  RETURN_ON_ERROR(DeviceOf(dev, &device));
  RETURN_IF(pciBusId == nullptr || len <= 0, CUDA_ERROR_INVALID_VALUE);
  snprintf(pciBusId, static_cast<size_t>(len), "0000:%02X:00.0", kFirstPciBus + GetOptions().devices[static_cast<size_t>(dev)]);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(dev == nullptr || pciBusId == nullptr, CUDA_ERROR_INVALID_VALUE);
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) {
    domain = function = 0;
    if (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &slot) != 3) {
      domain = 0;
      RETURN_IF(sscanf(pciBusId, "%x:%x.%x", &bus, &slot, &function) != 3, CUDA_ERROR_INVALID_VALUE);
    }
  }
  const std::vector<int>& devices = GetOptions().devices;
  const auto found = std::find(devices.begin(), devices.end(), static_cast<int>(bus) - kFirstPciBus);
  RETURN_IF(domain != 0 || slot != 0 || function != 0 || found == devices.end(), CUDA_ERROR_INVALID_DEVICE);
  *dev = static_cast<CUdevice>(found - devices.begin());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type, CUdevice dev) {
  Device* device;
  RETURN_ON_ERROR(DeviceOf(dev, &device));
  RETURN_IF(pi == nullptr || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT, CUDA_ERROR_INVALID_VALUE);
  *pi = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* maxWidthInElements, CUarray_format format, unsigned numChannels,
                                            CUdevice dev) {
  Device* device;
  RETURN_ON_ERROR(DeviceOf(dev, &device));
  RETURN_IF(maxWidthInElements == nullptr, CUDA_ERROR_INVALID_VALUE);
  *maxWidthInElements = 1u << 28;
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  Device* device;
  RETURN_ON_ERROR(DeviceOf(dev, &device));
  RETURN_ON_ERROR(DeviceOf(peerDev, &device));
  RETURN_IF(canAccessPeer == nullptr, CUDA_ERROR_INVALID_VALUE);
  *canAccessPeer = dev != peerDev;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice) {
  Device* device;
  RETURN_ON_ERROR(DeviceOf(srcDevice, &device));
  RETURN_ON_ERROR(DeviceOf(dstDevice, &device));
  RETURN_IF(value == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(srcDevice == dstDevice, CUDA_ERROR_INVALID_DEVICE);
  switch (attrib) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK: *value = 0; return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: *value = 1; return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED: *value = 0; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // extern "C"
