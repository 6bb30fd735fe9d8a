#include "protocol/wire/device_snapshot.h"

#include <algorithm>
#include <iterator>

#include <cstring>

#include "protocol/wire/decoder.h"
#include "protocol/wire/handshake.h"

namespace tessera {
namespace {

using Answer = DeviceSnapshot::Answer;

void PutAnswers(Encoder& out, const std::vector<Answer>& answers) {
  out.Pod(static_cast<uint32_t>(answers.size()));
  out.Raw(std::as_bytes(std::span(answers)));
}

void GetAnswers(Decoder& in, std::vector<Answer>* answers, size_t count_max) {
  answers->resize(in.CountOf(count_max, sizeof(Answer)));
  for (Answer& answer : *answers) in.Pod(&answer);
}

void PutDevice(Encoder& out, const DeviceSnapshot::Device& device) {
  out.String(device.name);
  out.Pod(device.uuid);
  out.Pod(device.uuid_v2);
  out.Pod(device.total_bytes);
  out.String(device.pci_bus_id);
  out.Pod(device.luid_result);
  out.Pod(device.luid);
  out.Pod(device.luid_node_mask);
  out.Pod(device.least_stream_priority);
  out.Pod(device.greatest_stream_priority);
  PutAnswers(out, device.attributes);
}

template <size_t size>
void GetArray(Decoder& in, uint8_t (&to)[size]) {
  const std::span<const std::byte> bytes = in.Raw(size);
  if (bytes.size() == size) std::memcpy(to, bytes.data(), size);
}

void GetDevice(Decoder& in, DeviceSnapshot::Device* device) {
  device->name = GetText(in, DeviceSnapshot::kTextBytesMax);
  GetArray(in, device->uuid);
  GetArray(in, device->uuid_v2);
  in.Pod(&device->total_bytes);
  device->pci_bus_id = in.String(DeviceSnapshot::kTextBytesMax);
  in.Pod(&device->luid_result);
  GetArray(in, device->luid);
  in.Pod(&device->luid_node_mask);
  in.Pod(&device->least_stream_priority);
  in.Pod(&device->greatest_stream_priority);
  GetAnswers(in, &device->attributes, DeviceSnapshot::kAnswersMax);
}

}  // namespace

std::string DeviceSnapshot::Device::UuidText() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof(uuid); ++i) {
    text += kDigits[uuid[i] >> 4];
    text += kDigits[uuid[i] & 15];
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

int32_t DeviceSnapshot::Device::HostNuma() const {
  constexpr size_t kAttribute = 134;  // CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID
  if (attributes.size() <= kAttribute || attributes[kAttribute].result != 0) return -1;
  return std::max(attributes[kAttribute].value, -1);
}

DeviceSnapshot DeviceSnapshot::Only(std::span<const uint32_t> numbers) const {
  DeviceSnapshot some;
  some.driver_version = driver_version;
  some.selection = selection;
  some.p2p_attributes = p2p_attributes;
  std::vector<size_t> kept;
  std::copy_if(numbers.begin(), numbers.end(), std::back_inserter(kept),
               [&](uint32_t number) { return number < devices.size(); });
  for (const size_t from : kept) {
    some.devices.push_back(devices[from]);
    for (const size_t to : kept) {
      const auto first = p2p.begin() + static_cast<std::ptrdiff_t>((from * devices.size() + to) * p2p_attributes);
      some.p2p.insert(some.p2p.end(), first, first + p2p_attributes);
    }
  }
  return some;
}

void DeviceSnapshot::Encode(Encoder& out) const {
  out.Pod(driver_version);
  out.String(selection);
  out.Pod(static_cast<uint32_t>(devices.size()));
  for (const Device& device : devices) PutDevice(out, device);
  out.Pod(p2p_attributes);
  PutAnswers(out, p2p);
}

Result<DeviceSnapshot> DeviceSnapshot::Decode(std::span<const std::byte> bytes) {
  constexpr size_t kDeviceBytesMin = 2 * sizeof(uint32_t) + 2 * 16 + 8 + 4 + 8 + 3 * 4 + 4;
  Decoder in(bytes);
  DeviceSnapshot snapshot;
  in.Pod(&snapshot.driver_version);
  snapshot.selection = in.String(kDeviceListBytesMax);
  snapshot.devices.resize(in.CountOf(kDevicesMax, kDeviceBytesMin));
  for (Device& device : snapshot.devices) GetDevice(in, &device);
  in.Pod(&snapshot.p2p_attributes);
  GetAnswers(in, &snapshot.p2p, kDevicesMax * kDevicesMax * kAnswersMax);
  const size_t pairs = snapshot.devices.size() * snapshot.devices.size();
  if (!in.ok() || !in.AtEnd() || snapshot.p2p_attributes > kAnswersMax ||
      snapshot.p2p.size() != pairs * snapshot.p2p_attributes) {
    return Status(StatusCode::kProtocolViolation, "the server's description of its devices cannot be read");
  }
  return snapshot;
}

}  // namespace tessera
