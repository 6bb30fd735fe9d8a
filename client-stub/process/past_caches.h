// As memcpy, but what is written does not stay in the caches of the core that writes it.
//
// A GPU that reads lines which cores have changed in their own caches gets 13 to 20 GB/s, and from memory 55 (H200, 16
// cores of a virtual machine, PCIe 5 x16; a ring of some MiB that threads fill). Memory beyond the size of the caches is
// written faster that way whoever reads it next. One core writes half as fast as memcpy does, so it takes several.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

// Whether lines are asked for some turns before they are read. It brings a few per cent (H100, eight threads), but for what the
// device has written shortly before.
enum class ReadAhead : uint8_t { kNo, kYes };

// By the wider of the two below that the processor has.
void CopyPastCaches(void* to, const void* from, size_t bytes, ReadAhead ahead);

// 16 bytes at once, which every processor has.
void CopyPastCachesBy16(void* to, const void* from, size_t bytes);
// 64: a line is written by one store. Only where HasStoresOf64().
void CopyPastCachesBy64(void* to, const void* from, size_t bytes, ReadAhead ahead);
bool HasStoresOf64();  // AVX-512

}  // namespace tessera
