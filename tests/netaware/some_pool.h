// Servers and GPUs for tests of the pool.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <vector>

#include "netaware/inventory/inventory.h"

namespace tessera {

inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// A server of GPUs of 80 GiB; a context takes 1 GiB.
inline PoolServer SomeServer(const std::string& id, uint32_t gpus, const std::string& model = "NVIDIA H100") {
  PoolServer server{.id = id, .addresses = {"tls://" + id + ":4190"}};
  for (uint32_t i = 0; i < gpus; ++i) {
    server.gpus.push_back(
        {.uuid = fmt::format("GPU-{}-{}", id, i), .model = model, .all = {kWholeShare, 80 * kGiB}, .context_bytes = kGiB});
  }
  return server;
}

}  // namespace tessera
