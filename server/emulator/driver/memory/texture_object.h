// Texture and surface objects: descriptions that kernels name by handle.
// Source: CUDA driver API, "Texture Object Management", "Surface Object Management".
#pragma once

#include "server/emulator/driver/memory/array.h"
#include "server/emulator/ptx/run/texture.h"

namespace tessera::emulator {

struct TextureObject {
  uint64_t context;  // handle of the one it was made in
  bool is_surface;
  CUDA_RESOURCE_DESC resource;
  CUDA_TEXTURE_DESC sampling;    // zero for surfaces
  std::shared_ptr<Array> array;  // kept: null for linear memory
  Texture texture;               // what kernels get
};

}  // namespace tessera::emulator
