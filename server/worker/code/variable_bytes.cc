#include "server/worker/code/variable_bytes.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "server/code_image/entries.h"
#include "server/code_image/fatbin.h"
#include "server/code_image/image.h"

namespace tessera {
namespace {

// An instruction of 16 bytes is a line of PTX of some 30, and the driver may unroll loops.
constexpr uint64_t kCodeOfPtx = 4;
// What is compressed has at most so many times its size, as nvcc writes it.
constexpr uint64_t kCodeOfUnknown = 8;

uint64_t Product(uint64_t left, uint64_t right) {
  uint64_t result = 0;
  return __builtin_mul_overflow(left, right, &result) ? UINT64_MAX : result;
}
uint64_t Sum(uint64_t left, uint64_t right) { return left > UINT64_MAX - right ? UINT64_MAX : left + right; }

// The number that begins there.
uint64_t NumberAt(std::string_view text, size_t at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
  uint64_t number = 0;
  const bool hexadecimal = text.substr(at, 2) == "0x";
  std::from_chars(text.data() + at + (hexadecimal ? 2 : 0), text.data() + text.size(), number, hexadecimal ? 16 : 10);
  return number;
}

// "8" of ".b8", "32" of ".f32"; 0 for a word that is no type of a variable.
uint64_t TypeBytes(std::string_view word) {
  if (word.size() < 3 || std::string_view("bsuf").find(word[1]) == std::string_view::npos) return 0;
  return NumberAt(word, 2) / 8;
}

// Of one declaration, from ".global" up to its end or its initial value.
uint64_t DeclaredBytes(std::string_view text) {
  uint64_t element = 0, vector = 1, count = 1;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '[') {
      count = Product(count, NumberAt(text, at + 1));
    } else if (text[at] == '.') {
      const size_t end = std::min(text.find_first_of(" \t\r\n.[(", at + 1), text.size());
      const std::string_view word = text.substr(at, end - at);
      if (word == ".v2") vector = 2;
      if (word == ".v4") vector = 4;
      if (const uint64_t bytes = TypeBytes(word); bytes != 0) element = bytes;
    }
  }
  return Product(Product(element, vector), count);
}

bool IsSpace(char letter) { return std::isspace(static_cast<unsigned char>(letter)) != 0; }

}  // namespace

uint64_t PtxVariableBytes(std::string_view text) {
  constexpr std::string_view kSpace = ".global";
  uint64_t bytes = 0;
  for (size_t at = text.find(kSpace); at != std::string_view::npos; at = text.find(kSpace, at + 1)) {
    // In an instruction (ld.global.u32) it follows a word.
    if (at > 0 && !IsSpace(text[at - 1])) continue;
    if (at + kSpace.size() >= text.size() || !IsSpace(text[at + kSpace.size()])) continue;
    // Declared here, and defined elsewhere.
    const size_t before = text.find_last_not_of(" \t\r\n", at == 0 ? 0 : at - 1);
    constexpr std::string_view kExtern = ".extern";
    if (before != std::string_view::npos && before + 1 >= kExtern.size() && at > 0 &&
        text.substr(before + 1 - kExtern.size(), kExtern.size()) == kExtern) {
      continue;
    }
    const size_t end = std::min(text.find_first_of(";=", at), text.size());
    bytes = Sum(bytes, DeclaredBytes(text.substr(at + kSpace.size(), end - at - kSpace.size())));
  }
  return bytes;
}

ImageBytes BytesOfImage(const std::vector<std::span<const std::byte>>& parts, uint32_t sm) {
  ImageBytes all;
  Result<code_image::Image> image = code_image::DecodeImage(parts, sm);
  if (!image.ok()) {
    for (const std::span<const std::byte> part : parts) all.code = Sum(all.code, Product(part.size(), kCodeOfUnknown));
    return all;
  }
  std::map<uint32_t, ImageBytes> of_part;
  for (const code_image::CubinEntry& cubin : image->cubins) {
    if (!code_image::RunsOn(cubin.sm, sm)) continue;
    uint64_t bytes = 0;
    for (const code_image::CubinVariable& variable : cubin.variables) {
      if (!variable.is_const) bytes = Sum(bytes, variable.size_bytes);
    }
    ImageBytes& of_this = of_part[cubin.part];
    of_this = {std::max(of_this.variables, bytes), std::max(of_this.code, cubin.size_bytes)};
  }
  std::map<uint32_t, ImageBytes> of_ptx;
  for (const code_image::PtxEntry& ptx : image->ptx) {
    if (of_part.contains(ptx.part)) continue;
    ImageBytes& of_this = of_ptx[ptx.part];
    of_this = {std::max(of_this.variables, PtxVariableBytes(ptx.text)),
               std::max(of_this.code, Product(ptx.text.size(), kCodeOfPtx))};
  }
  of_part.merge(of_ptx);
  for (const auto& [part, bytes] : of_part) all = {Sum(all.variables, bytes.variables), Sum(all.code, bytes.code)};
  return all;
}

}  // namespace tessera
