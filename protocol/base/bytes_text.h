// Numbers of bytes as people write and read them. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// "8589934592", "8GiB", "512 MiB"; the units are KiB, MiB, GiB and TiB, each 1,024 times the one before. False for anything else,
// and for what does not fit 64 bits.
bool ParseBytes(std::string_view text, uint64_t* bytes);
// "8 GiB", "512 MiB", "1000 bytes": in the largest unit that leaves no more than two places behind the point, so never rounded.
std::string BytesText(uint64_t bytes);

}  // namespace tessera
