// How the bytes of a copy travel between the two ends of a session. The numbers are part of the protocol.
#pragma once

#include <cstdint>

namespace tessera {

// The field `route` of a copy's record.
enum class CopyRoute : uint32_t {
  kDirect = 0,       // the worker can use both addresses as they are: device memory and pinned host memory
  kInline = 1,       // the source is `data`, inside the record
  kFromStaging = 2,  // the source is an offset in the staging segment
  kToStaging = 3,    // the destination is an offset in the staging segment
};

}  // namespace tessera
