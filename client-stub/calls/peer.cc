// Which device can reach which: answered from the snapshot.

#include <cuda.h>

#include "client-stub/client.h"
#include "generated/client/peer.h"

namespace tessera {

CUresult Custom_cuDeviceCanAccessPeer(Call& call, int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  if (!call.ok()) return call.result();
  if (canAccessPeer == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Devices& devices = call.session().devices();
  if (!devices.Valid(dev) || !devices.Valid(peerDev)) return call.Fail(CUDA_ERROR_INVALID_DEVICE);
  *canAccessPeer = 0;
  if (dev == peerDev) return CUDA_SUCCESS;
  return call.Fail(devices.P2PAttribute(dev, peerDev, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, canAccessPeer));
}

CUresult Custom_cuDeviceGetP2PAttribute(Call& call, int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                        CUdevice dstDevice) {
  if (!call.ok()) return call.result();
  if (value == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Devices& devices = call.session().devices();
  if (!devices.Valid(srcDevice) || !devices.Valid(dstDevice) || srcDevice == dstDevice) {
    return call.Fail(CUDA_ERROR_INVALID_DEVICE);
  }
  return call.Fail(devices.P2PAttribute(srcDevice, dstDevice, attrib, value));
}

}  // namespace tessera
