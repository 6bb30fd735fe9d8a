// tex, suld and sust through texture and surface objects. Source: PTX ISA 9.0, "Texture Instructions", "Surface Instructions".
#include <fmt/core.h>
#include <algorithm>

#include "server/emulator/ptx/operations/memory.h"
#include "server/emulator/ptx/run/texture.h"

namespace tessera::emulator {
namespace {

// Dimensions of an image; layered ones have a layer before their coordinates.
enum Geometry : uint32_t { k1d, k2d, k3d, k1dLayers, k2dLayers, kCube, kCubeLayers };
bool TakeGeometry(Lowering& l, Geometry* geometry) {
  static constexpr std::pair<std::string_view, Geometry> kWords[] = {
      {"1d", k1d}, {"2d", k2d}, {"3d", k3d}, {"a1d", k1dLayers}, {"a2d", k2dLayers}, {"cube", kCube}, {"acube", kCubeLayers}};
  for (const auto& [word, value] : kWords) {
    if (!l.Take(word)) continue;
    *geometry = value;
    return true;
  }
  return false;
}
uint32_t DimensionsOf(Geometry geometry) {
  switch (geometry) {
    case k1d:
    case k1dLayers: return 1;
    case k2d:
    case k2dLayers: return 2;
    default: return 3;
  }
}
bool HasLayer(Geometry geometry) { return geometry == k1dLayers || geometry == k2dLayers || geometry == kCubeLayers; }
bool Fits(Geometry geometry, const Texture& texture) {
  const bool flat = texture.depth == 1 || texture.layered || texture.cube;
  switch (geometry) {
    case k1d: return texture.height == 1 && flat && !texture.layered;
    case k2d: return flat && !texture.layered && !texture.cube;
    case k3d: return !texture.layered && !texture.cube;
    case k1dLayers:
    case k2dLayers: return texture.layered && !texture.cube;
    case kCube: return texture.cube && !texture.layered;
    case kCubeLayers: return texture.cube && texture.layered;
  }
  return false;
}

// Reads one lane's elements: of an array directly, of linear memory through the map of what may be accessed.
class LaneSource : public TexelSource {
 public:
  LaneSource(Warp& w, const Inst& inst, uint32_t lane, const Texture& texture)
      : w_(w), inst_(inst), lane_(lane), texture_(texture) {}
  const uint8_t* At(uint64_t address, uint32_t size_bytes) override {
    if (texture_.is_array) return reinterpret_cast<const uint8_t*>(address);
    uint64_t addresses[kLaneCount] = {};
    addresses[lane_] = address;
    uint8_t* places[kLaneCount];
    if (!TranslateSlow(w_, inst_, 1u << lane_, addresses, MemorySpace::kGlobal, size_bytes, false, places)) return nullptr;
    return places[lane_];
  }

 private:
  Warp& w_;
  const Inst& inst_;
  const uint32_t lane_;
  const Texture& texture_;
};

bool FindObject(Warp& w, const Inst& inst, uint64_t object, bool surface, Geometry geometry, Texture* texture) {
  TextureMap* map = w.grid().environment->textures;
  const bool found = map != nullptr && (surface ? map->FindSurface(object, texture) : map->FindTexture(object, texture));
  if (found && Fits(geometry, *texture)) return true;
  w.Fault(LaunchError::kIllegalAddress, inst,
          found ? fmt::format("{} object {:#x} is of other dimensions", surface ? "surface" : "texture", object)
                : fmt::format("{:#x} is no {} object", object, surface ? "surface" : "texture"));
  return false;
}

// src[0]: the object. Extra: geometry, whether coordinates are whole numbers, slots of coordinates (layer first), of results.
void Sample(Warp& w, const Inst& inst, uint32_t mask) {
  const uint32_t* words = w.Extra(inst);
  const auto geometry = static_cast<Geometry>(words[0]);
  const bool whole = words[1] != 0;
  const uint32_t dimensions = DimensionsOf(geometry), inputs = dimensions + (HasLayer(geometry) ? 1 : 0);
  const uint32_t* in = words + 2;
  const uint32_t* out = in + inputs;
  Texture texture;
  uint64_t known = 0;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint64_t object = w.Slot<uint64_t>(inst.src[0])[lane];
    if (known == 0 || object != known) {
      if (!FindObject(w, inst, object, false, geometry, &texture)) return;
      known = object;
    }
    const uint32_t* slots = in;
    int64_t layer = HasLayer(geometry) ? w.Slot<int32_t>(*slots++)[lane] : 0;
    LaneSource source(w, inst, lane, texture);
    Texel texel;
    if (whole) {
      int64_t at[3] = {0, 0, layer};
      for (uint32_t d = 0; d < dimensions; ++d) at[d] = w.Slot<int32_t>(slots[d])[lane];
      const bool outside_linear = !texture.is_array && (at[0] < 0 || at[0] >= texture.width) && dimensions == 1;
      if (outside_linear) {
        texel = {};  // a fetch beyond linear memory gives zero
      } else if (!FetchTexel(texture, source, at[0], at[1], at[2], &texel)) {
        return;
      }
    } else {
      float at[3] = {};
      for (uint32_t d = 0; d < dimensions; ++d) at[d] = w.Slot<float>(slots[d])[lane];
      uint32_t sampled = dimensions;
      if (texture.cube) {
        float face[2];
        layer = layer * 6 + CubeFace(at, face);
        at[0] = face[0], at[1] = face[1], at[2] = 0;
        sampled = 2;
        texture.normalized_coordinates = true;
      }
      if (!SampleTexture(texture, source, sampled, at, layer, &texel)) return;
    }
    for (size_t i = 0; i < 4; ++i) w.Slot<uint32_t>(out[i])[lane] = texel[i];
  }
}

// The coordinates of `[object, {c0, c1, ...}]`; vectors are padded to a power of two.
std::vector<uint32_t> Coordinates(Lowering& l, const Operand& address, Geometry geometry, Type type) {
  std::vector<uint32_t> slots;
  if (address.kind != Operand::kAddress || address.elements.size() != 2) {
    l.Unknown();
    return slots;
  }
  const Operand& list = address.elements[1];
  const uint32_t count = DimensionsOf(geometry) + (HasLayer(geometry) ? 1 : 0);
  const size_t given = list.kind == Operand::kVector ? list.elements.size() : 1;
  if (given < count) {
    l.Unknown();
    return slots;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const bool is_layer = i == 0 && HasLayer(geometry);
    slots.push_back(l.Source(list.kind == Operand::kVector ? list.elements[i] : list, is_layer ? kB32 : type));
  }
  return slots;
}

void LowerTex(Lowering& l) {
  l.Take("base");
  const bool level = l.Take("level");
  Geometry geometry;
  if (!TakeGeometry(l, &geometry) || !l.Take("v4")) return l.Unknown();
  const Type result = l.TakeType(), coordinate = l.TakeType();
  if (result.size_bytes != 4 || (coordinate != kF32 && coordinate != kS32)) return l.Unknown();
  if (coordinate == kS32 && (geometry == kCube || geometry == kCubeLayers)) return l.Unknown();
  // Images here have one level, so any level of detail means that one.
  if (l.count() != (level ? 3u : 2u)) return l.Unknown();
  std::vector<uint32_t> words = {geometry, coordinate == kS32 ? 1u : 0u};
  const std::vector<uint32_t> in = Coordinates(l, l.operand(1), geometry, coordinate);
  if (l.failed()) return;
  const uint32_t object = l.Source(l.operand(1).elements[0], kB64);
  if (level) l.Source(2, coordinate);
  const std::vector<uint32_t> out = Elements(l, l.operand(0), kB32, 4, true);
  words.insert(words.end(), in.begin(), in.end());
  words.insert(words.end(), out.begin(), out.end());
  const uint32_t extra = l.Extra(words);
  Inst& inst = l.Emit(&Sample);
  inst.src[0] = object;
  inst.extra = extra;
}

enum Boundary : uint8_t { kTrap, kClampToEdge, kZeroOutside };

// src[0]: the object. small: boundary. Extra: geometry, bytes of a value, number of values, slots of coordinates (layer first;
// x in bytes), of values.
template <bool kStore>
void AccessSurface(Warp& w, const Inst& inst, uint32_t mask) {
  const uint32_t* words = w.Extra(inst);
  const auto geometry = static_cast<Geometry>(words[0]);
  const uint32_t value_bytes = words[1], count = words[2], size = value_bytes * count;
  const uint32_t dimensions = DimensionsOf(geometry), inputs = dimensions + (HasLayer(geometry) ? 1 : 0);
  const uint32_t* in = words + 3;
  const uint32_t* values = in + inputs;
  Texture surface;
  uint64_t known = 0;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint64_t object = w.Slot<uint64_t>(inst.src[0])[lane];
    if (known == 0 || object != known) {
      if (!FindObject(w, inst, object, true, geometry, &surface)) return;
      known = object;
    }
    const uint32_t* slots = in;
    int64_t at[3] = {};
    if (HasLayer(geometry)) at[2] = w.Slot<int32_t>(*slots++)[lane];
    for (uint32_t d = 0; d < dimensions; ++d) at[d] = w.Slot<int32_t>(slots[d])[lane];
    const int64_t limits[3] = {static_cast<int64_t>(surface.row_bytes) - size, int64_t{surface.height} - 1,
                               int64_t{surface.depth} - 1};
    bool inside = true;
    for (int d = 0; d < 3; ++d) inside = inside && at[d] >= 0 && at[d] <= limits[d];
    if (at[0] % size != 0)
      return w.Fault(LaunchError::kMisalignedAddress, inst, fmt::format("surface byte {} is not a multiple of {}", at[0], size));
    if (!inside && inst.small == kTrap) {
      return w.Fault(LaunchError::kIllegalAddress, inst,
                     fmt::format("outside the surface: byte {}, row {}, slice {}", at[0], at[1], at[2]));
    }
    if (!inside && inst.small == kZeroOutside) {
      for (uint32_t i = 0; i < count && !kStore; ++i)
        std::memset(w.Slot<uint8_t>(values[i]) + lane * value_bytes, 0, value_bytes);
      continue;
    }
    for (int d = 0; d < 3; ++d) at[d] = std::clamp<int64_t>(at[d], 0, std::max<int64_t>(limits[d], 0));
    auto* place = reinterpret_cast<uint8_t*>(surface.base + static_cast<uint64_t>(at[2]) * surface.slice_bytes +
                                             static_cast<uint64_t>(at[1]) * surface.row_bytes + static_cast<uint64_t>(at[0]));
    for (uint32_t i = 0; i < count; ++i) {
      uint8_t* value = w.Slot<uint8_t>(values[i]) + lane * value_bytes;
      std::memcpy(kStore ? place + i * value_bytes : value, kStore ? value : place + i * value_bytes, value_bytes);
    }
  }
}

template <bool kStore>
void LowerSurface(Lowering& l) {
  if (!l.Take("b")) return l.Unknown();
  Geometry geometry;
  if (!TakeGeometry(l, &geometry) || geometry == kCube || geometry == kCubeLayers) return l.Unknown();
  for (std::string_view word : {"ca", "cg", "cs", "cv", "wb", "wt"}) l.Take(word);
  const uint32_t count = l.Take("v2") ? 2 : l.Take("v4") ? 4 : 1;
  const Type type = l.TakeType();
  uint8_t boundary;
  if (l.Take("trap"))
    boundary = kTrap;
  else if (l.Take("clamp"))
    boundary = kClampToEdge;
  else if (l.Take("zero"))
    boundary = kZeroOutside;
  else
    return l.Unknown();
  if (type.type_class != TypeClass::kBits || l.count() != 2) return l.Unknown();
  const Operand& address = l.operand(kStore ? 0 : 1);
  const std::vector<uint32_t> in = Coordinates(l, address, geometry, kB32);
  if (l.failed()) return;
  const uint32_t object = l.Source(address.elements[0], kB64);
  const std::vector<uint32_t> values = Elements(l, l.operand(kStore ? 1 : 0), type, count, !kStore);
  std::vector<uint32_t> words = {geometry, type.size_bytes, count};
  words.insert(words.end(), in.begin(), in.end());
  words.insert(words.end(), values.begin(), values.end());
  const uint32_t extra = l.Extra(words);
  Inst& inst = l.Emit(&AccessSurface<kStore>);
  inst.src[0] = object;
  inst.small = boundary;
  inst.extra = extra;
}

constexpr OpRow kRows[] = {
    {"tex", kAnyType, LowerTex},
    {"suld", kAnyType, LowerSurface<false>},
    {"sust", kAnyType, LowerSurface<true>},
};

}  // namespace

std::span<const OpRow> TextureOps() { return kRows; }

}  // namespace tessera::emulator
