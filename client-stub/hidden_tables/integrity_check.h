// INTEGRITY_CHECK: the CUDA runtime asks the driver for a keyed hash of facts about this process, and compares it with its own.
// All facts are those of process and thread, so the hash is computed here, on the calling thread. Source: observed.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>

#include "client-stub/hidden_tables/md2.h"

namespace tessera {

struct IntegrityFacts {
  uint32_t driver_version = 0;
  uint32_t version = 0;  // the runtime's version, plus 0, 1 and 2 in turn
  uint32_t process = 0;
  uint32_t thread = 0;  // low half of pthread_self()
  uint64_t cudart_table = 0;
  uint64_t integrity_table = 0;
  uint64_t function = 0;  // slot 1 of the integrity table
  uint64_t seconds = 0;
};
struct IntegrityDevice {
  uint8_t uuid[16];
  uint32_t pci_domain;
  uint32_t pci_bus;
  uint32_t pci_device;
};
static_assert(sizeof(IntegrityDevice) == 28 && sizeof(IntegrityFacts) == 48);

// What slot 1 answers: a constant if the last digit of facts.version is 0 or 1, else the hash. Pure; any thread.
Md2Digest IntegrityAnswer(const IntegrityFacts& facts, std::span<const IntegrityDevice> devices);

}  // namespace tessera
