// Text for people, of bytes that others have written. Whatever comes from another process or another host passes through here
// before it is printed, logged or put into JSON: control messages do so where they are decoded (GetText), the log with every
// line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

inline constexpr size_t kPrintedBytesMax = 200;

// In a line, in UTF-8: what cannot be printed is a '?', what is longer than `bytes_max` is cut between two characters. That is
// control characters (so no terminal does anything), what turns the direction of writing or breaks lines, and what is no UTF-8.
std::string Printable(std::string_view text, size_t bytes_max = kPrintedBytesMax);

}  // namespace tessera
