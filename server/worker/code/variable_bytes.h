// How much of a GPU's memory the variables of an image take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tessera {

// Of the parts of one image (server/code_image/image.h), as a device of compute capability `sm` (90 for 9.0) takes them. Of each
// part the machine code that needs most, else the PTX that does; constants are no such memory. 0 for what is no image, or is too
// large to unpack: such an image loads without being counted. Any thread.
uint64_t VariableBytes(const std::vector<std::span<const std::byte>>& parts, uint32_t sm);

// Of the module-scope variables that a PTX text declares in .global. Source: PTX ISA, "State Spaces", "Variables".
uint64_t PtxVariableBytes(std::string_view text);

}  // namespace tessera
