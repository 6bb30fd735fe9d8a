#include "client-stub/hidden_tables/integrity_check.h"

#include <pthread.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/hidden_tables/table.h"
#include "client-stub/session/client.h"

namespace tessera {
namespace {

struct IntegrityCheckTag {
  static constexpr const char* kName = "INTEGRITY_CHECK";
  static constexpr size_t kWords = 3;
};

constexpr uint8_t kKey[16] = {0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52, 0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f};

CUresult Answer(uint32_t version, uint64_t seconds, uint8_t* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Client& client = Client::Get();
  IntegrityFacts facts;
  facts.driver_version = static_cast<uint32_t>(client.DriverVersion());
  facts.version = version;
  facts.process = static_cast<uint32_t>(getpid());
  facts.thread = static_cast<uint32_t>(pthread_self());
  facts.cudart_table = reinterpret_cast<uint64_t>(CudartInterface());
  facts.integrity_table = reinterpret_cast<uint64_t>(IntegrityCheck());
  facts.function = reinterpret_cast<uint64_t>(&Answer);
  facts.seconds = seconds;
  std::vector<IntegrityDevice> listed;
  if (client.initialized()) {
    for (CUdevice d = 0; d < client.device_count(); ++d) {
      const Devices& devices = client.SessionOfDevice(d)->devices();
      IntegrityDevice entry{};
      std::memcpy(entry.uuid, devices[d].uuid, sizeof(entry.uuid));
      int domain = 0, bus = 0, device = 0;
      devices.Attribute(d, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &domain);
      devices.Attribute(d, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &bus);
      devices.Attribute(d, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &device);
      entry.pci_domain = static_cast<uint32_t>(domain);
      entry.pci_bus = static_cast<uint32_t>(bus);
      entry.pci_device = static_cast<uint32_t>(device);
      listed.push_back(entry);
    }
  }
  const Md2Digest answer = IntegrityAnswer(facts, listed);
  std::memcpy(out, answer.data(), answer.size());
  return CUDA_SUCCESS;
}

}  // namespace

Md2Digest IntegrityAnswer(const IntegrityFacts& facts, std::span<const IntegrityDevice> devices) {
  Md2Digest constant = {0x5c, 0x67, 0xcb, 0x03, 0x1c, 0x18, 0x41, 0x33, 0xe8, 0xd1, 0x4c, 0x1f, 0xaa, 0x83, 0xd3, 0x8e};
  if (facts.version % 10 == 0) return constant;
  if (facts.version % 10 == 1) {
    constant[7] = 0x18;
    return constant;
  }
  std::vector<uint8_t> message(sizeof(facts) + devices.size_bytes());
  std::memcpy(message.data(), &facts, sizeof(facts));
  if (!devices.empty()) std::memcpy(message.data() + sizeof(facts), devices.data(), devices.size_bytes());
  return HmacMd2(kKey, message);
}

const void* IntegrityCheck() {
  static HiddenTable<IntegrityCheckTag> table;
  static const void* const filled = &table.Set(1, &Answer);
  return filled;
}

}  // namespace tessera
