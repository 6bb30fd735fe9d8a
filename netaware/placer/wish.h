// What a job asks for of a pool, and what that takes of a GPU. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "netaware/inventory/inventory.h"

namespace tessera {

using ServerNames = std::set<std::string, std::less<>>;

struct Wish {
  uint32_t gpus = 1;                       // at least 1
  uint32_t share = kWholeShare;            // of each, that it gets whenever it wants it
  std::optional<uint64_t> memory_bytes{};  // of each, without contexts; nothing: DefaultMemory()
  uint32_t processes = 1;                  // that use them at a time, each with a context on each; 1 to Ticket::kProcessesMax
  std::vector<std::string> models{};       // any of these; none: any
  bool same_server = false;
  std::string isolation = "strict";  // PoolGpu::isolations
  std::string priority = "normal";   // PoolGpu::priorities
  std::string host{};                // of servers of this host alone; empty: of any

  friend bool operator==(const Wish&, const Wish&) = default;
};

// What a job's contexts take of this GPU.
uint64_t ContextsOf(const PoolGpu& gpu, uint32_t processes);

// As much of the memory as `share` is of the time, less the contexts: so jobs of equal shares fill time and memory alike. In
// whole pieces of 2 MiB; 0 where nothing is left beside the contexts.
uint64_t DefaultMemory(const PoolGpu& gpu, uint32_t share, uint32_t processes);

// What a job takes of this GPU: its share, its memory and its contexts.
GpuAmount AmountOf(const Wish& wish, const PoolGpu& gpu);

}  // namespace tessera
