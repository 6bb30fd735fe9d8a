// The name of an image: a hash of its bytes, the same on every machine.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tessera {

// Images of at least so many bytes are named before they are sent.
inline constexpr uint64_t kNamedBytesMin = uint64_t{64} << 10;
// Instead of CUDA's result in the reply of a load call: the server does not have an image that was named; it is to be sent, and
// the call made again.
inline constexpr int32_t kImageMissing = -1;
// The same, and the server keeps no images: naming the next one is of no use.
inline constexpr int32_t kNoImageCache = -2;

struct ImageKey {
  std::array<std::byte, 32> bytes{};

  std::string Hex() const;
  // The key that Hex() wrote; false for anything else.
  static bool FromHex(std::string_view text, ImageKey* key);
  friend auto operator<=>(const ImageKey&, const ImageKey&) = default;
};

// Calls `work(i)` for every i below `count`, in any order, and returns when all have returned.
using ForEachPart = std::function<void(size_t count, const std::function<void(size_t part)>& work)>;

// SHA-256 (FIPS 180-4) over the size and the SHA-256 of each MiB; `for_each` may do several parts at once. Any thread.
ImageKey KeyOf(std::span<const std::byte> image, const ForEachPart& for_each);
ImageKey KeyOf(std::span<const std::byte> image);  // on the calling thread

// The same of an image that comes in pieces.
class KeyHasher {
 public:
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  explicit KeyHasher(uint64_t image_bytes) : image_bytes_(image_bytes) {}
  // The next piece, of kPieceBytes; the last one may be shorter.
  void Add(std::span<const std::byte> piece);
  // Once all have come.
  ImageKey Key() const;

 private:
  uint64_t image_bytes_;
  std::vector<std::array<std::byte, 32>> parts_;
};

}  // namespace tessera
