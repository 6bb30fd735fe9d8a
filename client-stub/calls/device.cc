// Questions about devices: answered from what the server said when the session began.

#include <cuda.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "client-stub/call/call.h"
#include "client-stub/session/client.h"
#include "generated/client/device.h"
#include "protocol/runtime/client_support.h"

namespace tessera {
namespace {

// The device of a call, or null and the call failed: 1 for a null output first, then 101, as natively.
const DeviceSnapshot::Device* FindDevice(Call& call, const void* output, CUdevice device) {
  if (!call.ok()) return nullptr;
  if (output == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE), nullptr;
  const Devices& devices = call.session().devices();
  if (!devices.Valid(device)) return call.Fail(CUDA_ERROR_INVALID_DEVICE), nullptr;
  return &devices[device];
}

CUresult GetUuid(Call& call, CUuuid* uuid, CUdevice dev, const uint8_t (DeviceSnapshot::Device::*which)[16]) {
  const DeviceSnapshot::Device* device = FindDevice(call, uuid, dev);
  if (device == nullptr) return call.result();
  std::memcpy(uuid->bytes, device->*which, sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Custom_cuDeviceGet(Call& call, CUdevice* device, int ordinal) {
  if (SeveralServers()) call.RouteToDevice(ordinal);
  if (FindDevice(call, device, ordinal) == nullptr) return call.result();
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult Custom_cuDeviceGetCount(Call& call, int* count) {
  if (!call.ok()) return call.result();
  if (count == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  *count = Client::Get().device_count();
  return CUDA_SUCCESS;
}

CUresult Custom_cuDeviceGetName(Call& call, char* name, int len, CUdevice dev) {
  const DeviceSnapshot::Device* device = FindDevice(call, name, dev);
  if (device == nullptr) return call.result();
  if (len <= 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  StoreText(device->name, name, static_cast<size_t>(len));
  return CUDA_SUCCESS;
}

CUresult Custom_cuDeviceGetUuid(Call& call, CUuuid* uuid, CUdevice dev) {
  return GetUuid(call, uuid, dev, &DeviceSnapshot::Device::uuid);
}

CUresult Custom_cuDeviceGetUuid_v2(Call& call, CUuuid* uuid, CUdevice dev) {
  return GetUuid(call, uuid, dev, &DeviceSnapshot::Device::uuid_v2);
}

CUresult Custom_cuDeviceGetLuid(Call& call, char* luid, unsigned int* deviceNodeMask, CUdevice dev) {
  if (luid == nullptr || deviceNodeMask == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const DeviceSnapshot::Device* device = FindDevice(call, luid, dev);
  if (device == nullptr) return call.result();
  if (device->luid_result != CUDA_SUCCESS) return call.Fail(static_cast<CUresult>(device->luid_result));
  std::memcpy(luid, device->luid, sizeof(device->luid));
  *deviceNodeMask = device->luid_node_mask;
  return CUDA_SUCCESS;
}

// The form of before CUDA 3.2, which cannot say more than 4 GiB.
CUresult Custom_cuDeviceTotalMem(Call& call, unsigned int* bytes, CUdevice dev) {
  const DeviceSnapshot::Device* device = FindDevice(call, bytes, dev);
  if (device == nullptr) return call.result();
  *bytes = static_cast<unsigned int>(std::min<uint64_t>(device->total_bytes, UINT_MAX));
  return CUDA_SUCCESS;
}

CUresult Custom_cuDeviceTotalMem_v2(Call& call, size_t* bytes, CUdevice dev) {
  const DeviceSnapshot::Device* device = FindDevice(call, bytes, dev);
  if (device == nullptr) return call.result();
  *bytes = device->total_bytes;
  return CUDA_SUCCESS;
}

CUresult Custom_cuDeviceGetAttribute(Call& call, int* pi, CUdevice_attribute attrib, CUdevice dev) {
  if (FindDevice(call, pi, dev) == nullptr) return call.result();
  return call.Fail(call.session().devices().Attribute(dev, attrib, pi));
}

CUresult Custom_cuDeviceGetProperties(Call& call, CUdevprop* prop, CUdevice dev) {
  if (FindDevice(call, prop, dev) == nullptr) return call.result();
  const Devices& devices = call.session().devices();
  CUdevprop answer{};
  struct Field {
    CUdevice_attribute attribute;
    int* to;
  };
  const Field fields[] = {
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &answer.maxThreadsPerBlock},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, &answer.maxThreadsDim[0]},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, &answer.maxThreadsDim[1]},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, &answer.maxThreadsDim[2]},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, &answer.maxGridSize[0]},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &answer.maxGridSize[1]},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, &answer.maxGridSize[2]},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &answer.sharedMemPerBlock},
      {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, &answer.totalConstantMemory},
      {CU_DEVICE_ATTRIBUTE_WARP_SIZE, &answer.SIMDWidth},
      {CU_DEVICE_ATTRIBUTE_MAX_PITCH, &answer.memPitch},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, &answer.regsPerBlock},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &answer.clockRate},
      {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, &answer.textureAlign},
  };
  for (const Field& field : fields) {
    const CUresult result = devices.Attribute(dev, field.attribute, field.to);
    if (result != CUDA_SUCCESS) return call.Fail(result);
  }
  *prop = answer;
  return CUDA_SUCCESS;
}

CUresult Custom_cuDeviceComputeCapability(Call& call, int* major, int* minor, CUdevice dev) {
  if (call.ok() && minor == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (FindDevice(call, major, dev) == nullptr) return call.result();
  const Devices& devices = call.session().devices();
  CUresult result = devices.Attribute(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major);
  if (result == CUDA_SUCCESS) result = devices.Attribute(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, minor);
  return call.Fail(result);
}

CUresult Custom_cuDeviceGetByPCIBusId(Call& call, CUdevice* dev, const char* pciBusId) {
  constexpr size_t kBusIdBytesMax = 16;
  if (!call.ok()) return call.result();
  if (dev == nullptr || pciBusId == nullptr || std::strchr(pciBusId, ':') == nullptr || std::strlen(pciBusId) > kBusIdBytesMax) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  for (const Session* session : Client::Get().sessions()) {
    if (const std::optional<CUdevice> found = session->devices().FindPciBusId(pciBusId)) {
      *dev = *found;
      return CUDA_SUCCESS;
    }
  }
  return call.Fail(CUDA_ERROR_INVALID_DEVICE);
}

CUresult Custom_cuDeviceGetPCIBusId(Call& call, char* pciBusId, int len, CUdevice dev) {
  const DeviceSnapshot::Device* device = FindDevice(call, pciBusId, dev);
  if (device == nullptr) return call.result();
  if (len <= 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  StoreText(device->pci_bus_id, pciBusId, static_cast<size_t>(len));
  // Natively, too, the buffer holds what fitted.
  return static_cast<size_t>(len) > device->pci_bus_id.size() ? CUDA_SUCCESS : call.Fail(CUDA_ERROR_INVALID_VALUE);
}

CUresult Custom_cuDeviceGetHostAtomicCapabilities(Call& call, unsigned int* capabilities, const CUatomicOperation* operations,
                                                  unsigned int count, CUdevice dev) {
  if (!call.ok()) return call.result();
  if (capabilities == nullptr || operations == nullptr || count == 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (FindDevice(call, capabilities, dev) == nullptr) return call.result();
  if (call.session().mirrored()) {
    std::fill_n(capabilities, count, 0u);  // the GPU works on a copy of the program's host memory
    return CUDA_SUCCESS;
  }
  cuDeviceGetHostAtomicCapabilitiesRequest request;
  request.operations.Borrow(operations, count);
  request.count = count;
  request.dev = call.DeviceNumber(dev);
  cuDeviceGetHostAtomicCapabilitiesReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  if (reply.capabilities.size() > count) return call.MalformedReply();
  std::copy(reply.capabilities.begin(), reply.capabilities.end(), capabilities);
  return CUDA_SUCCESS;
}

// The client library tells nobody: what it would report (the memory of the GPU runs over its budget) concerns the server's
// process. So a callback is kept and never called.
CUresult Custom_cuDeviceRegisterAsyncNotification(Call& call, CUdevice device, CUasyncCallback callbackFunc, void* userData,
                                                  CUasyncCallbackHandle* callback) {
  if (!call.ok()) return call.result();
  if (!call.session().devices().Valid(device)) return call.Fail(CUDA_ERROR_INVALID_DEVICE);
  if (callbackFunc == nullptr || callback == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const HandleId handle = call.Mint(HandleKind::kAsyncCallback);
  if (!call.ok()) return call.result();
  *callback = reinterpret_cast<CUasyncCallbackHandle>(handle.value());
  return CUDA_SUCCESS;
}

CUresult Custom_cuDeviceUnregisterAsyncNotification(Call& call, CUdevice device, CUasyncCallbackHandle callback) {
  if (!call.ok()) return call.result();
  if (!call.session().devices().Valid(device)) return call.Fail(CUDA_ERROR_INVALID_DEVICE);
  const HandleId handle = call.Use(HandleKind::kAsyncCallback, callback);
  if (!call.ok()) return call.result();
  call.Release(handle);
  return CUDA_SUCCESS;
}

}  // namespace tessera
