// Which device can reach which: answered from the snapshots. Devices of two servers never do.

#include <cuda.h>

#include <algorithm>

#include "client-stub/call/call.h"
#include "client-stub/session/client.h"
#include "generated/client/peer.h"

namespace tessera {

CUresult Custom_cuDeviceCanAccessPeer(Call& call, int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  if (!call.ok()) return call.result();
  if (canAccessPeer == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Session* session = Client::Get().SessionOfDevice(dev);
  const Session* peer_session = Client::Get().SessionOfDevice(peerDev);
  if (session == nullptr || peer_session == nullptr) return call.Fail(CUDA_ERROR_INVALID_DEVICE);
  *canAccessPeer = 0;
  // No device reaches the memory of another server's.
  if (dev == peerDev || session != peer_session) return CUDA_SUCCESS;
  return call.Fail(session->devices().P2PAttribute(dev, peerDev, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, canAccessPeer));
}

CUresult Custom_cuDeviceGetP2PAttribute(Call& call, int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                        CUdevice dstDevice) {
  if (!call.ok()) return call.result();
  if (value == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Session* session = Client::Get().SessionOfDevice(srcDevice);
  const Session* peer_session = Client::Get().SessionOfDevice(dstDevice);
  if (session == nullptr || peer_session == nullptr || srcDevice == dstDevice) return call.Fail(CUDA_ERROR_INVALID_DEVICE);
  if (session != peer_session) {
    // As of two devices without a connection.
    if (attrib < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
        attrib > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED) {
      return call.Fail(CUDA_ERROR_INVALID_VALUE);
    }
    *value = 0;
    return CUDA_SUCCESS;
  }
  return call.Fail(session->devices().P2PAttribute(srcDevice, dstDevice, attrib, value));
}

namespace {

// The context to reach: its id, or the call failed. One of another server cannot be reached.
HandleId UsePeer(Call& call, CUcontext peer, CUresult elsewhere) {
  const Context* context = Client::Get().FindContext(peer);
  if (call.ok() && context != nullptr && context->session != &call.session()) call.Fail(elsewhere);
  return call.Use(HandleKind::kContext, peer);
}

}  // namespace

CUresult Custom_cuCtxEnablePeerAccess(Call& call, CUcontext peerContext, unsigned int Flags) {
  cuCtxEnablePeerAccessRequest request;
  request.peerContext = UsePeer(call, peerContext, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  if (!call.ok()) return call.result();
  request.Flags = Flags;
  return call.Sync(request);
}

CUresult Custom_cuCtxDisablePeerAccess(Call& call, CUcontext peerContext) {
  cuCtxDisablePeerAccessRequest request;
  request.peerContext = UsePeer(call, peerContext, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  if (!call.ok()) return call.result();
  return call.Sync(request);
}

// Atomics between the memory of two servers' devices: none.
CUresult Custom_cuDeviceGetP2PAtomicCapabilities(Call& call, unsigned int* capabilities, const CUatomicOperation* operations,
                                                 unsigned int count, CUdevice srcDevice, CUdevice dstDevice) {
  if (!call.ok()) return call.result();
  if ((capabilities == nullptr || operations == nullptr) && count != 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const Session* peer_session = Client::Get().SessionOfDevice(dstDevice);
  if (call.session().devices().Valid(srcDevice) && peer_session != nullptr && peer_session != &call.session()) {
    std::fill_n(capabilities, count, 0u);
    return CUDA_SUCCESS;
  }
  cuDeviceGetP2PAtomicCapabilitiesRequest request;
  request.operations.Borrow(operations, count);
  request.count = count;
  request.srcDevice = call.DeviceNumber(srcDevice);
  request.dstDevice = call.DeviceNumber(dstDevice);
  cuDeviceGetP2PAtomicCapabilitiesReply reply;
  if (const CUresult result = call.Sync(request, &reply); result != CUDA_SUCCESS) return result;
  if (reply.capabilities.size() > count) return call.MalformedReply();
  std::copy(reply.capabilities.begin(), reply.capabilities.end(), capabilities);
  return CUDA_SUCCESS;
}

}  // namespace tessera
