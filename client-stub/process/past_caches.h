// Copies as memcpy does, but the written bytes do not stay in the core's caches.
//
// A GPU reads 55 GB/s from memory, but only 13 to 20 if the lines are changed in cores' caches (H200, 16 cores of a virtual
// machine, PCIe 5 x16; threads fill a ring of some MiB). Memory larger than the caches is written faster in this way, whoever
// reads it next. One core is half as fast as memcpy, so it takes several.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

// Whether lines are prefetched. It brings a few per cent (H100, eight threads), except for memory that the device has just
// written.
enum class ReadAhead : uint8_t { kNo, kYes };

// By the wider of the two functions below that the processor supports.
void CopyPastCaches(void* to, const void* from, size_t bytes, ReadAhead ahead);

// 16 bytes at once, which every processor has.
void CopyPastCachesBy16(void* to, const void* from, size_t bytes);
// 64: a line is written by one store. Only where HasStoresOf64().
void CopyPastCachesBy64(void* to, const void* from, size_t bytes, ReadAhead ahead);
bool HasStoresOf64();  // AVX-512

}  // namespace tessera
