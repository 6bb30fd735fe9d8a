// A store that ends with its process: for tests, and for a placer that needs no durable store. Its epoch is the time of its
// start, in microseconds since 1970, so a later store has a larger one. One thread.
#pragma once

#include <memory>

#include "netaware/store/store.h"

namespace tessera {

std::unique_ptr<Store> MakeMemoryStore();

}  // namespace tessera
