// Functions that the driver hands out in tables without names, by number.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "generated/driver_table.h"

namespace tessera {

// The function in slot `slot` of table `id`, whose first word is its size in bytes; null when the driver has no such table or
// slot. Any thread.
inline const void* DriverSlot(const DriverTable& driver, const CUuuid& id, size_t slot) {
  const void* table = nullptr;
  if (driver.cuGetExportTable == nullptr || driver.cuGetExportTable(&table, &id) != CUDA_SUCCESS) return nullptr;
  const auto* words = static_cast<const uint64_t*>(table);
  if (words == nullptr || words[0] <= slot * sizeof(uint64_t)) return nullptr;
  return reinterpret_cast<const void*>(words[slot]);
}

}  // namespace tessera
