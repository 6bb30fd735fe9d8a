// The ELF note by which Tessera's own libcuda.so.1 is known from a driver (server/driver/stub_file.h), and which release it is of
// (`tessera doctor`).
#pragma once

#include <cstdint>

namespace tessera {

inline constexpr char kStubNoteName[8] = "tessera";  // eight bytes with its NUL, so that no padding follows
inline constexpr uint32_t kStubNoteType = 0x53545542;

// What the note says. Its layout is for ever: what comes later goes behind it.
struct StubNoteContent {
  uint32_t wire_version;
  char version[28];  // of the release, ends with a zero
};

}  // namespace tessera
