// INTEGRITY_CHECK: the CUDA runtime asks the driver to prove that it knows a keyed hash over facts of this process, and
// compares with its own. All facts are local to process and thread, so it is computed here, on the calling thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>

#include "client-stub/hidden_tables/md2.h"

namespace tessera {

struct IntegrityFacts {
  uint32_t driver_version = 0;
  uint32_t version = 0;  // the runtime's own, plus 0, 1 and 2 in turn
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

// What slot 1 answers: constants for versions whose last digit is 0 or 1, else the hash. Pure.
Md2Digest IntegrityAnswer(const IntegrityFacts& facts, std::span<const IntegrityDevice> devices);

}  // namespace tessera
