// Images as kernels see them through texture and surface objects: storage, and how coordinates become values.
// Source: CUDA C++ Programming Guide, "Texture Fetching"; PTX ISA 9.0, "Texture Instructions", "Surface Instructions".
#pragma once

#include <array>
#include <cstdint>

namespace tessera::emulator {

struct Texture {
  enum class Channel : uint8_t { kSigned, kUnsigned, kFloat };
  enum class AddressMode : uint8_t { kWrap, kClamp, kMirror, kBorder };

  // Storage. An array's is the object's own and always accessible; linear memory is checked at every access.
  uint64_t base = 0;
  bool is_array = false;
  bool layered = false;
  bool cube = false;
  uint32_t width = 1, height = 1, depth = 1;  // in elements; depth counts layers and faces too
  uint64_t row_bytes = 0, slice_bytes = 0;
  Channel channel = Channel::kFloat;
  uint32_t channel_bytes = 4;
  uint32_t channels = 1;

  // Sampling; of no meaning to surfaces.
  std::array<AddressMode, 3> address = {AddressMode::kClamp, AddressMode::kClamp, AddressMode::kClamp};
  bool linear_filter = false;
  bool normalized_coordinates = false;
  bool normalized_values = false;  // integers of 8 and 16 bits are read as fractions of their largest
  std::array<float, 4> border = {};

  uint32_t element_bytes() const { return channel_bytes * channels; }
  bool gives_floats() const { return channel == Channel::kFloat || normalized_values; }
};

// Finds what a kernel names by a handle. Called from many threads at once.
class TextureMap {
 public:
  virtual ~TextureMap() = default;
  // Copies the description; false when `object` is none, or none of that kind.
  virtual bool FindTexture(uint64_t object, Texture* texture) = 0;
  virtual bool FindSurface(uint64_t object, Texture* surface) = 0;
};

// Four channels as the 32-bit words that an instruction stores; missing ones are 0.
using Texel = std::array<uint32_t, 4>;

// Where the element lies, or null after a fault. Indices are within the storage.
class TexelSource {
 public:
  virtual ~TexelSource() = default;
  virtual const uint8_t* At(uint64_t address, uint32_t size_bytes) = 0;
};

// One element at whole coordinates, unfiltered; outside of the image by its address mode. False after a fault.
bool FetchTexel(const Texture& texture, TexelSource& source, int64_t x, int64_t y, int64_t z, Texel* result);
// A sample at `coordinates` (unused ones 0): one for each of the image's `dimensions` (1 to 3). `layer` is clamped.
bool SampleTexture(const Texture& texture, TexelSource& source, uint32_t dimensions, const float* coordinates, int64_t layer,
                   Texel* result);
// The face, 0 to 5, that a direction points to, and where on it, as normalised coordinates.
uint32_t CubeFace(const float direction[3], float coordinates[2]);

}  // namespace tessera::emulator
