// Device attributes that a forwarded program sees differently from the server's driver.
#pragma once

#include <cuda.h>

#include <optional>
#include <span>

namespace tessera {

struct FilteredAttribute {
  CUdevice_attribute attribute;
  int value;           // what is reported
  bool mirrored_only;  // only where client and server share no pages; on one host the driver's value holds
  const char* reason;
  int kept_bits = 0;  // not 0: these bits of the driver's value are reported instead of `value`
};

std::span<const FilteredAttribute> FilteredAttributes();

// The value to report instead of the driver's; nullopt: the driver's value is right.
std::optional<int> FilteredValue(int attribute, int driver_value, bool mirrored);

}  // namespace tessera
