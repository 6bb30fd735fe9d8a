// Text for people, of bytes that others have written.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// In a line: what cannot be printed is a '?', what is very long is cut.
std::string Printable(std::string_view text);

}  // namespace tessera
