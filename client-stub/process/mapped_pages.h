// Looks at what this process has mapped.
#pragma once

#include "protocol/memory/range_allocator.h"

namespace tessera {

// Whether every page of the range is mapped or at least reserved. Any thread.
bool IsMapped(const Range& range);

}  // namespace tessera
