// As memcpy, but what is written does not stay in the caches of the core that writes it.
//
// A GPU that reads lines which cores have changed in their own caches gets 13 to 20 GB/s, and from memory 55 (H200, 16
// cores of a virtual machine, PCIe 5 x16; a ring of some MiB that threads fill). One core writes half as fast that way
// as memcpy does, so it takes several.
#pragma once

#include <cstddef>

namespace tessera {

void CopyPastCaches(void* to, const void* from, size_t bytes);

}  // namespace tessera
