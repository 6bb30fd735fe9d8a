// The devices of a session: the server's snapshot, with the answers that forwarding changes (filtered_attributes.h).
// Constant after construction; any thread.
#pragma once

#include <cuda.h>

#include <optional>
#include <string_view>

#include "protocol/wire/device_snapshot.h"

namespace tessera {

class Devices {
 public:
  Devices() = default;
  // `mirrored`: client and server share no pages (ServerWelcome::mirrored).
  Devices(DeviceSnapshot snapshot, bool mirrored);

  // min(the server driver's version, what this library's entry points cover: CUDA_VERSION).
  int driver_version() const { return driver_version_; }
  int count() const { return static_cast<int>(snapshot_.devices.size()); }
  bool Valid(CUdevice device) const { return device >= 0 && device < count(); }
  // Of a valid device.
  const DeviceSnapshot::Device& operator[](CUdevice device) const { return snapshot_.devices[device]; }

  // cuDeviceGetAttribute of a valid device.
  CUresult Attribute(CUdevice device, int attribute, int* value) const;
  // cuDeviceGetP2PAttribute; `from` and `to` are valid and different.
  CUresult P2PAttribute(CUdevice from, CUdevice to, int attribute, int* value) const;
  // The device with this PCI bus id in any of the forms cuDeviceGetByPCIBusId takes.
  std::optional<CUdevice> FindPciBusId(std::string_view bus_id) const;

 private:
  DeviceSnapshot snapshot_;
  int driver_version_ = CUDA_VERSION;
};

}  // namespace tessera
