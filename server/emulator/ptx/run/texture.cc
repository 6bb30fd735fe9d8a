#include "server/emulator/ptx/run/texture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "server/emulator/ptx/run/half.h"

namespace tessera::emulator {
namespace {

constexpr int64_t kOutside = -1;

// The index that stands for `i` among `size`; kOutside for the border. Wrap and mirror need normalised coordinates.
int64_t Resolve(const Texture& texture, int dimension, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  Texture::AddressMode mode = texture.address[static_cast<size_t>(dimension)];
  const bool repeats = mode == Texture::AddressMode::kWrap || mode == Texture::AddressMode::kMirror;
  if (repeats && !texture.normalized_coordinates) mode = Texture::AddressMode::kClamp;
  switch (mode) {
    case Texture::AddressMode::kClamp: return std::clamp<int64_t>(i, 0, size - 1);
    case Texture::AddressMode::kBorder: return kOutside;
    case Texture::AddressMode::kWrap: return ((i % size) + size) % size;
    case Texture::AddressMode::kMirror: {
      const int64_t within = ((i % (2 * size)) + 2 * size) % (2 * size);
      return within < size ? within : 2 * size - 1 - within;
    }
  }
  return kOutside;
}

uint32_t ReadChannel(const Texture& texture, const uint8_t* from) {
  uint32_t bits = 0;
  std::memcpy(&bits, from, texture.channel_bytes);
  switch (texture.channel) {
    case Texture::Channel::kFloat:
      return texture.channel_bytes == 2 ? std::bit_cast<uint32_t>(HalfToFloat::Run(static_cast<uint16_t>(bits))) : bits;
    case Texture::Channel::kUnsigned:
      if (!texture.normalized_values) return bits;
      return std::bit_cast<uint32_t>(static_cast<float>(bits) / (texture.channel_bytes == 1 ? 255.0f : 65535.0f));
    case Texture::Channel::kSigned: {
      const int32_t value = texture.channel_bytes == 1   ? static_cast<int8_t>(bits)
                            : texture.channel_bytes == 2 ? static_cast<int16_t>(bits)
                                                         : static_cast<int32_t>(bits);
      if (!texture.normalized_values) return static_cast<uint32_t>(value);
      const float fraction = static_cast<float>(value) / (texture.channel_bytes == 1 ? 127.0f : 32767.0f);
      return std::bit_cast<uint32_t>(std::max(fraction, -1.0f));
    }
  }
  return 0;
}

Texel Border(const Texture& texture) {
  Texel texel;
  for (size_t i = 0; i < 4; ++i) {
    texel[i] = texture.gives_floats() ? std::bit_cast<uint32_t>(texture.border[i])
                                      : static_cast<uint32_t>(static_cast<int64_t>(texture.border[i]));
  }
  return texel;
}

int64_t Floor(float x) { return static_cast<int64_t>(std::floor(std::clamp(x, -1e9f, 1e9f))); }

// The weight of the upper neighbour: devices keep eight bits of it.
float Weight(float fraction) { return std::floor(fraction * 256.0f + 0.5f) / 256.0f; }

}  // namespace

bool FetchTexel(const Texture& texture, TexelSource& source, int64_t x, int64_t y, int64_t z, Texel* result) {
  x = Resolve(texture, 0, x, texture.width);
  y = Resolve(texture, 1, y, texture.height);
  z = texture.layered || texture.cube ? std::clamp<int64_t>(z, 0, texture.depth - 1) : Resolve(texture, 2, z, texture.depth);
  if (x == kOutside || y == kOutside || z == kOutside) {
    *result = Border(texture);
    return true;
  }
  const uint64_t address = texture.base + static_cast<uint64_t>(z) * texture.slice_bytes +
                           static_cast<uint64_t>(y) * texture.row_bytes + static_cast<uint64_t>(x) * texture.element_bytes();
  const uint8_t* from = source.At(address, texture.element_bytes());
  if (from == nullptr) return false;
  *result = {};
  for (uint32_t i = 0; i < texture.channels; ++i) (*result)[i] = ReadChannel(texture, from + i * texture.channel_bytes);
  return true;
}

bool SampleTexture(const Texture& texture, TexelSource& source, uint32_t dimensions, const float* coordinates, int64_t layer,
                   Texel* result) {
  const uint32_t sizes[3] = {texture.width, texture.height, texture.depth};
  float at[3] = {};
  for (uint32_t d = 0; d < dimensions; ++d) {
    const float x = coordinates[d] == coordinates[d] ? coordinates[d] : 0.0f;
    at[d] = texture.normalized_coordinates ? x * static_cast<float>(sizes[d]) : x;
  }
  const bool has_layer = dimensions < 3;
  if (!texture.linear_filter || !texture.gives_floats()) {
    return FetchTexel(texture, source, Floor(at[0]), Floor(at[1]), has_layer ? layer : Floor(at[2]), result);
  }
  int64_t low[3] = {};
  float weight[3] = {};
  for (uint32_t d = 0; d < dimensions; ++d) {
    const float shifted = at[d] - 0.5f;
    low[d] = Floor(shifted);
    weight[d] = Weight(std::clamp(shifted - static_cast<float>(low[d]), 0.0f, 1.0f));
  }
  float sum[4] = {};
  for (uint32_t corner = 0; corner < 1u << dimensions; ++corner) {
    int64_t index[3] = {0, 0, layer};
    float share = 1;
    for (uint32_t d = 0; d < dimensions; ++d) {
      const bool upper = (corner >> d & 1) != 0;
      index[d] = low[d] + (upper ? 1 : 0);
      share *= upper ? weight[d] : 1 - weight[d];
    }
    if (share == 0) continue;
    Texel texel;
    if (!FetchTexel(texture, source, index[0], index[1], index[2], &texel)) return false;
    for (size_t i = 0; i < 4; ++i) sum[i] += share * std::bit_cast<float>(texel[i]);
  }
  for (size_t i = 0; i < 4; ++i) (*result)[i] = std::bit_cast<uint32_t>(sum[i]);
  return true;
}

uint32_t CubeFace(const float direction[3], float coordinates[2]) {
  const float x = direction[0], y = direction[1], z = direction[2];
  const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  uint32_t face;
  float s, t, m;
  if (ax >= ay && ax >= az) {
    face = x >= 0 ? 0 : 1;
    m = ax, s = x >= 0 ? -z : z, t = -y;
  } else if (ay >= az) {
    face = y >= 0 ? 2 : 3;
    m = ay, s = x, t = y >= 0 ? z : -z;
  } else {
    face = z >= 0 ? 4 : 5;
    m = az, s = z >= 0 ? x : -x, t = -y;
  }
  coordinates[0] = m == 0 ? 0.5f : (s / m + 1) / 2;
  coordinates[1] = m == 0 ? 0.5f : (t / m + 1) / 2;
  return face;
}

}  // namespace tessera::emulator
