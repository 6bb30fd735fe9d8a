#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr size_t kPrintedBytesMax = 200;

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable(text.substr(0, kPrintedBytesMax));
  for (char& letter : printable) {
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f) letter = '?';
  }
  return printable;
}

}  // namespace tessera
