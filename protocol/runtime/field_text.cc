#include "protocol/runtime/field_text.h"

#include <algorithm>

namespace tessera {

// Enough to recognise a value in a log; the length is printed as well.
static constexpr size_t kShownBytesMax = 256;

FieldText::FieldText(std::string_view message) : text_(message) { text_ += '{'; }

void FieldText::Name(std::string_view name) {
  if (!first_) text_ += ", ";
  first_ = false;
  text_ += name;
  text_ += '=';
}

void FieldText::AddBytes(std::string_view name, std::span<const std::byte> bytes) {
  Name(name);
  Hex(bytes.data(), bytes.size());
}

void FieldText::AddString(std::string_view name, std::string_view text) {
  Name(name);
  text_ += '"';
  text_ += text.substr(0, kShownBytesMax);
  text_ += '"';
}

void FieldText::AddStrings(std::string_view name, const std::vector<std::string_view>& texts) {
  Name(name);
  Open();
  for (std::string_view text : texts) {
    text_ += '"';
    text_ += text.substr(0, kShownBytesMax);
    text_ += '"';
    Separate();
  }
  Close();
}

std::string FieldText::Take() {
  text_ += '}';
  return std::move(text_);
}

void FieldText::Open() { text_ += '['; }
void FieldText::Separate() { text_ += ' '; }
void FieldText::Close() { text_ += ']'; }
void FieldText::Signed(long long value) { text_ += std::to_string(value); }
void FieldText::Unsigned(unsigned long long value) { text_ += std::to_string(value); }

void FieldText::Hex(const void* data, size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto* bytes = static_cast<const unsigned char*>(data);
  text_ += "0x";
  for (size_t i = 0; i < std::min(size, kShownBytesMax); ++i) {
    text_ += kDigits[bytes[i] >> 4];
    text_ += kDigits[bytes[i] & 15];
  }
  text_ += '/';
  text_ += std::to_string(size);
}

}  // namespace tessera
