#include "programs/cut_lines.h"

namespace tessera {

std::string CutLines(std::string_view text, size_t width) {
  if (width == 0) return std::string(text);
  std::string cut;
  size_t characters = 0;
  for (const char byte : text) {
    const bool begins = (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    if (byte == '\n') {
      characters = 0;
    } else if (begins) {
      ++characters;
    }
    if (byte == '\n' || characters <= width) cut += byte;
  }
  return cut;
}

}  // namespace tessera
