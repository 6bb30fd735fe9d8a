// The address windows that a client process and its workers may agree on.
//
// Device memory and pinned host memory of a session have the same virtual address in the client and in the worker. No device
// pointer may equal an address that the client process maps (CUDA C Programming Guide, "Unified Virtual Addressing"). So both
// sides keep two windows of their address space free for this. The client offers every pair of windows that it could reserve (a
// bit per row of kWindowTable). The server answers with one of them that it can use as well. A row's index and numbers are part
// of the protocol: add rows at the end, never change one.
#pragma once

#include <cstdint>

#include "protocol/memory/range_allocator.h"

namespace tessera {

struct WindowPair {
  Range device;  // device memory; the worker reserves ranges of it through the driver when they are needed
  Range host;    // pinned host memory: segments, mapped at the same address on both sides
};

inline constexpr uint64_t kTebibyte = uint64_t{1} << 40;
inline constexpr uint64_t kGibibyte = uint64_t{1} << 30;

// Rows 0 to 2 are for ordinary processes. User space is 128 TiB; the kernel places mappings from its top down, and programs and
// heaps below or above this middle. Rows 4 and 5 are for processes with a limit of their address space (RLIMIT_AS). Row 3 is what
// ThreadSanitizer and AddressSanitizer leave. TSan ends a process that maps anything at the other rows, so a stub built with it
// offers row 3 alone. Row 3 lies below all places where the kernel begins to put mappings (the top less a random TiB).
inline constexpr WindowPair kWindowTable[] = {
    {{0x200000000000, 16 * kTebibyte}, {0x300000000000, 4 * kTebibyte}},
    {{0x400000000000, 8 * kTebibyte}, {0x480000000000, 4 * kTebibyte}},
    {{0x120000000000, 4 * kTebibyte}, {0x160000000000, 2 * kTebibyte}},
    {{0x7e8000000000, 256 * kGibibyte}, {0x7ec000000000, 128 * kGibibyte}},
    {{0x180000000000, 1536 * kGibibyte}, {0x198000000000, 512 * kGibibyte}},
    {{0x1a0000000000, 256 * kGibibyte}, {0x1a4000000000, 128 * kGibibyte}},
};
inline constexpr int kSanitizedRow = 3;
inline constexpr int kWindowRows = sizeof(kWindowTable) / sizeof(kWindowTable[0]);

// Sessions that one client process can have open at once. Each gets an equal part of both windows.
inline constexpr int kSessionsPerWindow = 8;

// The part of row `row` that belongs to the session with index `session_index` in the client process.
WindowPair SessionWindows(int row, int session_index);

}  // namespace tessera
