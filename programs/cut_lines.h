// Text that fits a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

// Each line with `width` characters at most; 0: as it is. A character of UTF-8 is whole or not there.
std::string CutLines(std::string_view text, size_t width);

}  // namespace tessera
