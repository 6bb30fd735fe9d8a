#include "protocol/image/image_key.h"

#define OPENSSL_SUPPRESS_DEPRECATED  // the functions below need nothing else of the library, unlike those that replace them
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace tessera {
namespace {

constexpr size_t kPartBytes = KeyHasher::kPieceBytes;

using Digest = std::array<std::byte, SHA256_DIGEST_LENGTH>;

unsigned char* Out(Digest& digest) { return reinterpret_cast<unsigned char*>(digest.data()); }

Digest Hash(std::span<const std::byte> bytes) {
  Digest digest;
  SHA256_CTX state;
  SHA256_Init(&state);
  SHA256_Update(&state, bytes.data(), bytes.size());
  SHA256_Final(Out(digest), &state);
  return digest;
}

ImageKey KeyOfParts(uint64_t image_bytes, std::span<const Digest> parts) {
  SHA256_CTX state;
  SHA256_Init(&state);
  SHA256_Update(&state, &image_bytes, sizeof(image_bytes));
  SHA256_Update(&state, parts.data(), parts.size() * sizeof(Digest));
  Digest root;
  SHA256_Final(Out(root), &state);
  return ImageKey{root};
}

}  // namespace

std::string ImageKey::Hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[static_cast<unsigned>(byte) >> 4];
    text += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

bool ImageKey::FromHex(std::string_view text, ImageKey* key) {
  if (text.size() != 2 * key->bytes.size()) return false;
  for (size_t i = 0; i < key->bytes.size(); ++i) {
    unsigned value = 0;
    const char* const end = text.data() + 2 * i + 2;
    const auto [at, error] = std::from_chars(end - 2, end, value, 16);
    if (error != std::errc() || at != end) return false;
    key->bytes[i] = static_cast<std::byte>(value);
  }
  return key->Hex() == text;  // not in capitals
}

void KeyHasher::Add(std::span<const std::byte> piece) { parts_.push_back(Hash(piece)); }

ImageKey KeyHasher::Key() const { return KeyOfParts(image_bytes_, parts_); }

ImageKey KeyOf(std::span<const std::byte> image, const ForEachPart& for_each) {
  std::vector<Digest> parts((image.size() + kPartBytes - 1) / kPartBytes);
  for_each(parts.size(), [&](size_t i) {
    const size_t offset = i * kPartBytes;
    parts[i] = Hash(image.subspan(offset, std::min(kPartBytes, image.size() - offset)));
  });
  return KeyOfParts(image.size(), parts);
}

ImageKey KeyOf(std::span<const std::byte> image) {
  return KeyOf(image, [](size_t count, const std::function<void(size_t)>& work) {
    for (size_t i = 0; i < count; ++i) work(i);
  });
}

}  // namespace tessera
