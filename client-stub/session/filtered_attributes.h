// Device attributes of which a forwarded program has something else than the server's driver has.
#pragma once

#include <cuda.h>

#include <optional>
#include <span>

namespace tessera {

struct FilteredAttribute {
  CUdevice_attribute attribute;
  int value;           // what is reported
  bool mirrored_only;  // only where client and server share no pages; on one host the driver's value is true
  const char* reason;
  int kept_bits = 0;  // not 0: these bits of the driver's value are reported, and not `value`
};

std::span<const FilteredAttribute> FilteredAttributes();

// The value to report instead of the driver's; nothing where the driver's value is right.
std::optional<int> FilteredValue(int attribute, int driver_value, bool mirrored);

}  // namespace tessera
