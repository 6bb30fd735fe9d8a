// Makes text for people from bytes that others have written. Whatever comes from another process or host passes through here
// before it is printed, logged or put into JSON. Control messages do this in GetText(), the log does it with every line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

inline constexpr size_t kPrintedBytesMax = 200;

// One line of UTF-8. A '?' stands for each control character, for what turns the direction of writing or breaks lines, and for
// what is no UTF-8. A text longer than `bytes_max` is cut between two characters.
std::string Printable(std::string_view text, size_t bytes_max = kPrintedBytesMax);

}  // namespace tessera
