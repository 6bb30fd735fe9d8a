#include "client-stub/nvml/device_list.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include <cuda.h>

#include "client-stub/config.h"
#include "generated/spec_hash.h"
#include "protocol/base/clock.h"
#include "protocol/channel/channel.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/memory/window_table.h"
#include "protocol/wire/device_snapshot.h"
#include "protocol/wire/handshake.h"

namespace tessera::nvml {
namespace {

// Starting a worker and its driver takes up to some seconds on a loaded server.
constexpr uint64_t kHandshakeTimeoutNs = 30'000'000'000;

std::string UuidText(const uint8_t (&uuid)[16]) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char digits[4];
    std::snprintf(digits, sizeof(digits), "%02x", uuid[i]);
    text += digits;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

int Attribute(const DeviceSnapshot::Device& device, CUdevice_attribute attribute) {
  const auto index = static_cast<size_t>(attribute);
  if (index >= device.attributes.size() || device.attributes[index].result != 0) return 0;
  return device.attributes[index].value;
}

}  // namespace

Result<DeviceList> ReadDevices() {
  const ServerAddress address = ParseServerAddress(GetConfig().server);
  if (!address.error.empty()) return Status(StatusCode::kInvalidArgument, address.error);
  Result<UniqueFd> socket = ConnectUnix(address.unix_path);
  if (!socket.ok()) return socket.status();
  ClientHello hello;
  hello.spec_hash = kSpecHash;
  hello.pid = static_cast<uint32_t>(getpid());
  hello.program = "libnvidia-ml";
  hello.window_rows = (uint64_t{1} << kWindowRows) - 1;  // no memory will be shared: any row will do
  ServerWelcome welcome;
  auto channel = Channel::Attach(std::move(socket).value(), hello, &welcome, MonotonicNs() + kHandshakeTimeoutNs);
  if (!channel.ok()) return channel.status();
  channel.value()->Leave();
  const Result<DeviceSnapshot> snapshot = DeviceSnapshot::Decode(welcome.snapshot);
  if (!snapshot.ok()) return snapshot.status();

  DeviceList list;
  list.driver_version = snapshot.value().driver_version;
  for (const DeviceSnapshot::Device& from : snapshot.value().devices) {
    Device device;
    device.name = from.name;
    device.uuid = UuidText(from.uuid);
    device.pci_domain = static_cast<unsigned>(Attribute(from, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID));
    device.pci_bus = static_cast<unsigned>(Attribute(from, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID));
    device.pci_device = static_cast<unsigned>(Attribute(from, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
    device.compute_major = Attribute(from, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    device.compute_minor = Attribute(from, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    list.devices.push_back(std::move(device));
  }
  return list;
}

}  // namespace tessera::nvml
