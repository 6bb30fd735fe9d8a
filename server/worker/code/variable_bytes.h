// How much of a GPU's memory an image takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tessera {

struct ImageBytes {
  uint64_t variables = 0;
  uint64_t code = 0;  // no less than it takes
};

// Of the parts of one image (server/code_image/image.h), as a device of compute capability `sm` (90 for 9.0) takes them. Of each
// part the machine code that needs most, else the PTX that does; constants are no variables, and go with the code. What is no
// image, or is too large to unpack, has no variables: such an image loads without being counted. Any thread.
ImageBytes BytesOfImage(const std::vector<std::span<const std::byte>>& parts, uint32_t sm);

// Of the module-scope variables that a PTX text declares in .global. Source: PTX ISA, "State Spaces", "Variables".
uint64_t PtxVariableBytes(std::string_view text);

}  // namespace tessera
