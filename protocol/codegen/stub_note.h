// The ELF note by which the server knows Tessera's own libcuda.so.1 from a driver (server/driver/stub_file.h).
#pragma once

#include <cstdint>

namespace tessera {

inline constexpr char kStubNoteName[8] = "tessera";  // eight bytes with its NUL, so that no padding follows
inline constexpr uint32_t kStubNoteType = 0x53545542;

}  // namespace tessera
