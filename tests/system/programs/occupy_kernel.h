// A kernel that has the emulated device for as many µs as its parameter says.
#pragma once

inline constexpr const char* kOccupy = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry occupy(.param .u64 duration)
.pragma "tessera_us duration";
{
  ret;
}
)";
