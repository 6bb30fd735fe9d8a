// The part of libnvidia-ml.so.1 that finds devices and tells what they are. All of it is known since nvmlInit, except serial
// number, firmware version, identity on the PCI bus, and what is at the other end of links.

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "client-stub/nvml/give.h"
#include "client-stub/nvml/nvml_abi.h"
#include "client-stub/session/device_disguise.h"

namespace {

using tessera::DeviceDisguise;
using tessera::Reading;
using tessera::nvml::Ask;
using tessera::nvml::CopyText;
using tessera::nvml::Device;
using tessera::nvml::Find;
using tessera::nvml::Found;
using tessera::nvml::GiveRow;
using tessera::nvml::GiveText;
using tessera::nvml::HandleOf;
using tessera::nvml::List;
using tessera::nvml::Readings;
using AskFor = tessera::ServerQuery::Ask;

constexpr size_t kUuidBytes = 16;

// Finds the first device for which `matches` holds.
template <typename Matches>
nvmlReturn_t FindBy(nvmlDevice_t* handle, Matches matches) {
  const auto list = List();
  if (list == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (handle == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (size_t i = 0; i < list->devices.size(); ++i) {
    if (!matches(list->devices[i])) continue;
    *handle = HandleOf(i);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

// Whether `bytes` are those of the UUID `text`, "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx".
bool IsUuid(const std::string& text, const unsigned char* bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (size_t i = 0; i < kUuidBytes; ++i) digits += {kDigits[bytes[i] >> 4], kDigits[bytes[i] & 15]};
  size_t place = 0;
  for (const char c : text.substr(std::strlen("GPU-"))) {
    if (c == '-') continue;
    if (place >= digits.size() || digits[place++] != c) return false;
  }
  return place == digits.size();
}

// `Info` is any version of nvmlPciInfo_t, or nvmlPciInfoExt_v1_t.
template <typename Info>
void FillPlace(const Device& device, Info* pci) {
  pci->domain = device.pci_domain;
  pci->bus = device.pci_bus;
  pci->device = device.pci_device;
}

// The identity of a device on its bus. The server tells it. An emulated device has none, and all is 0.
struct PciIdentity {
  unsigned device = 0;
  unsigned subsystem = 0;
  unsigned base_class = 0;
  unsigned sub_class = 0;
};
nvmlReturn_t AskPciIdentity(nvmlDevice_t handle, PciIdentity* identity) {
  Readings readings;
  if (const nvmlReturn_t result = Ask(handle, AskFor::kState, &readings); result != NVML_SUCCESS) return result;
  const auto value = [&readings](Reading reading) {
    const uint64_t* found = readings.Find(reading);
    return found == nullptr ? 0 : static_cast<unsigned>(*found);
  };
  *identity = {value(Reading::kPciDeviceId), value(Reading::kPciSubsystemId), value(Reading::kPciBaseClass),
               value(Reading::kPciSubClass)};
  return NVML_SUCCESS;
}

// Writes the texts of a device's place on the bus, from its numbers.
void PutLegacyId(nvmlPciInfo_t* pci) {
  std::snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0", pci->domain & 0xFFFF, pci->bus & 0xFF,
                pci->device & 0xFF);
}
template <typename Info>
void PutId(Info* pci) {
  std::snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
}

// The other end of a link is on the machine of `device`'s server. So it is shown in the PCI domain of that server's devices. A
// switch that the machine does not see has no address. What stands in its place stays as it is.
void ShowOnBus(const Device& device, nvmlPciInfo_t* remote) {
  if (device.server == 0 || remote->domain > 0xFFFF || remote->bus > 0xFF) return;
  remote->domain = DeviceDisguise{static_cast<uint32_t>(device.server), {}}.ShownDomain(remote->domain);
  PutLegacyId(remote);
  PutId(remote);
}

}  // namespace

// --- finding devices ---

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  const auto list = List();
  if (list == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned>(list->devices.size());
  return NVML_SUCCESS;
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  const auto list = List();
  if (list == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (device == nullptr || index >= list->devices.size()) return NVML_ERROR_INVALID_ARGUMENT;
  *device = HandleOf(index);
  return NVML_SUCCESS;
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  if (List() == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (uuid == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  return FindBy(device, [uuid](const Device& candidate) { return candidate.uuid == uuid; });
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_v1_t* uuid, nvmlDevice_t* device) {
  if (List() == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (uuid == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (uuid->version != StructVersion<nvmlUUID_v1_t>(1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (uuid->type == NVML_UUID_TYPE_BINARY) {
    return FindBy(device, [uuid](const Device& candidate) { return IsUuid(candidate.uuid, uuid->value.bytes); });
  }
  if (uuid->type != NVML_UUID_TYPE_ASCII) return NVML_ERROR_INVALID_ARGUMENT;
  const std::string text(uuid->value.str, strnlen(uuid->value.str, sizeof(uuid->value.str)));
  return nvmlDeviceGetHandleByUUID(text.c_str(), device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char* serial, nvmlDevice_t* device) {
  const auto list = List();
  if (list == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (serial == nullptr || device == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (size_t i = 0; i < list->devices.size(); ++i) {
    char text[96];
    const nvmlReturn_t result = GiveText(HandleOf(i), Reading::kSerial, text, sizeof(text));
    if (result == NVML_ERROR_GPU_IS_LOST) return result;
    if (result != NVML_SUCCESS || std::strcmp(text, serial) != 0) continue;
    *device = HandleOf(i);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

// Takes "domain:bus:device.function" with a domain of four or eight digits, or none.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* device) {
  if (List() == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (id == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  if (std::sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3) {
    domain = 0;
    if (std::sscanf(id, "%x:%x", &bus, &slot) != 2) return NVML_ERROR_INVALID_ARGUMENT;
  }
  return FindBy(device, [=](const Device& candidate) {
    return candidate.pci_domain == domain && candidate.pci_bus == bus && candidate.pci_device == slot;
  });
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned* index) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (index == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *index = static_cast<unsigned>(found.index);
  return NVML_SUCCESS;
}

// --- what a device is ---

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t handle, char* name, unsigned length) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  return CopyText(found.device->name, name, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t handle, char* uuid, unsigned length) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  return CopyText(found.device->uuid, uuid, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int* major, int* minor) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (major == nullptr || minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *major = found.device->compute_major;
  *minor = found.device->compute_minor;
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t handle, unsigned* bits) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (bits == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *bits = found.device->memory_bus_bits;
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t handle, unsigned* is_mig) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (is_mig == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *is_mig = found.device->uuid.starts_with("MIG-") ? 1 : 0;
  return NVML_SUCCESS;
}

// The caller must have room for 64 characters.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t handle, char* version) {
  return GiveText(handle, Reading::kGspFirmwareVersion, version, 64);
}

// --- on the PCI bus ---

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t* pci) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (pci == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  PciIdentity identity;
  if (const nvmlReturn_t result = AskPciIdentity(handle, &identity); result != NVML_SUCCESS) return result;
  *pci = {};
  FillPlace(*found.device, pci);
  pci->pciDeviceId = identity.device;
  pci->pciSubSystemId = identity.subsystem;
  PutLegacyId(pci);
  PutId(pci);
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t handle, nvmlPciInfoExt_v1_t* pci) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (pci == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (pci->version != StructVersion<nvmlPciInfoExt_v1_t>(1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  PciIdentity identity;
  if (const nvmlReturn_t result = AskPciIdentity(handle, &identity); result != NVML_SUCCESS) return result;
  FillPlace(*found.device, pci);
  pci->pciDeviceId = identity.device;
  pci->pciSubSystemId = identity.subsystem;
  pci->baseClass = identity.base_class;
  pci->subClass = identity.sub_class;
  PutId(pci);
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t handle, nvmlPciInfo_v2_t* pci) {
  if (pci == nullptr) return nvmlDeviceGetPciInfo_v3(handle, nullptr);
  nvmlPciInfo_t whole;
  if (const nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(handle, &whole); result != NVML_SUCCESS) return result;
  std::memcpy(pci, &whole, sizeof(*pci));
  return NVML_SUCCESS;
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t handle, nvmlPciInfo_v2_t* pci) {
  if (pci == nullptr) return nvmlDeviceGetPciInfo_v3(handle, nullptr);
  nvmlPciInfo_t whole;
  if (const nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(handle, &whole); result != NVML_SUCCESS) return result;
  std::memcpy(pci, &whole, offsetof(nvmlPciInfo_v2_t, pciSubSystemId));
  return NVML_SUCCESS;
}

// Tells the device at the other end of a link.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t handle, unsigned link, nvmlPciInfo_t* pci) {
  constexpr size_t kWords = sizeof(nvmlPciInfo_t) / sizeof(unsigned);
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (pci == nullptr || link >= tessera::kLinksMax) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned words[kWords];
  const nvmlReturn_t result = GiveRow<kWords>(handle, AskFor::kLinks, Reading::kLinkRemotePci + kWords * link, words);
  if (result != NVML_SUCCESS) return result;
  std::memcpy(pci, words, sizeof(*pci));
  ShowOnBus(*found.device, pci);
  return NVML_SUCCESS;
}
// Fills in version 2 of the struct, since programs that look for this name, such as NCCL, have that one.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t handle, unsigned link, nvmlPciInfo_v2_t* pci) {
  if (pci == nullptr) return nvmlDeviceGetNvLinkRemotePciInfo_v2(handle, link, nullptr);
  nvmlPciInfo_t whole;
  const nvmlReturn_t result = nvmlDeviceGetNvLinkRemotePciInfo_v2(handle, link, &whole);
  if (result != NVML_SUCCESS) return result;
  std::memcpy(pci, &whole, sizeof(*pci));
  return NVML_SUCCESS;
}
