#include "protocol/base/printable.h"

#include <cstdint>

namespace tessera {
namespace {

// One character at the start of a text; bytes 0: that is no UTF-8 (RFC 3629).
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

Character FirstOf(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return {};
    code = code << 6 | (next & 0x3f);
  }
  constexpr uint32_t kCodeMin[] = {0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kCodeMin[bytes - 2] || code > 0x10ffff || surrogate) return {};
  return {code, bytes};
}

bool Prints(uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool breaks_line = code == 0x2028 || code == 0x2029;
  const bool turns = code == 0x061c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
                     (code >= 0x2066 && code <= 0x2069);
  return !control && !breaks_line && !turns;
}

}  // namespace

std::string Printable(std::string_view text, size_t bytes_max) {
  std::string printable;
  while (!text.empty()) {
    const Character next = FirstOf(text);
    const bool prints = next.bytes != 0 && Prints(next.code);
    const std::string_view piece = prints ? text.substr(0, next.bytes) : "?";
    if (printable.size() + piece.size() > bytes_max) break;
    printable += piece;
    text.remove_prefix(next.bytes == 0 ? 1 : next.bytes);
  }
  return printable;
}

}  // namespace tessera
