// What this process has mapped.
#pragma once

#include "protocol/memory/range_allocator.h"

namespace tessera {

// Whether something of this process is at every page of the range, be it a mere reservation. Any thread.
bool IsMapped(const Range& range);

}  // namespace tessera
