// The devices of a session: the server's snapshot, with the answers that forwarding changes (filtered_attributes.h).
//
// Functions take a device's ordinal, the number that the application uses. With several servers the ordinals count through the
// devices of all of them, and each session has some. Records carry the server's own number. Constant after construction; any
// thread.
#pragma once

#include <cuda.h>

#include <optional>
#include <string_view>
#include <vector>

#include "client-stub/session/device_disguise.h"
#include "protocol/wire/device_snapshot.h"

namespace tessera {

class Devices {
 public:
  Devices() = default;
  // `mirrored`: client and server share no pages (ServerWelcome::mirrored). `ordinals`: one for each of the snapshot's devices,
  // all different; empty: 0, 1, ...
  Devices(DeviceSnapshot snapshot, bool mirrored, std::vector<CUdevice> ordinals = {}, const DeviceDisguise& disguise = {});

  // min(the server driver's version, what this library's entry points cover: CUDA_VERSION).
  int driver_version() const { return driver_version_; }
  int count() const { return static_cast<int>(snapshot_.devices.size()); }
  // This session has the device.
  bool Valid(CUdevice device) const { return NumberOf(device) >= 0; }
  // The server's number of a device; -1 when the session has none such.
  int NumberOf(CUdevice device) const {
    if (static_cast<size_t>(device) < numbers_.size()) return numbers_[static_cast<size_t>(device)];
    return -1;
  }
  // The ordinal of the server's device `number`; an unknown number is returned unchanged.
  CUdevice OrdinalOf(int number) const {
    return static_cast<size_t>(number) < ordinals_.size() ? ordinals_[static_cast<size_t>(number)] : number;
  }
  // Of a valid device.
  const DeviceSnapshot::Device& operator[](CUdevice device) const {
    return snapshot_.devices[static_cast<size_t>(NumberOf(device))];
  }

  // cuDeviceGetAttribute of a valid device.
  CUresult Attribute(CUdevice device, int attribute, int* value) const;
  // cuDeviceGetP2PAttribute; `from` and `to` are valid and different.
  CUresult P2PAttribute(CUdevice from, CUdevice to, int attribute, int* value) const;
  // The device with this PCI bus id in any of the forms cuDeviceGetByPCIBusId takes.
  std::optional<CUdevice> FindPciBusId(std::string_view bus_id) const;

 private:
  DeviceSnapshot snapshot_;
  std::vector<CUdevice> ordinals_;  // by the server's number
  std::vector<int> numbers_;        // by ordinal; -1: of another server
  int driver_version_ = CUDA_VERSION;
};

}  // namespace tessera
