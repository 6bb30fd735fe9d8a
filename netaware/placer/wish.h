// A job's wish for GPUs of a pool, and the amount of a GPU that it takes. Pure; any thread.
#pragma once

#include <compare>
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
  uint32_t share = kWholeShare;            // of each GPU's time, whenever the job wants it
  std::optional<uint64_t> memory_bytes{};  // of each GPU, without contexts; nullopt: DefaultMemory()
  uint32_t processes = 1;                  // at a time, each with a context on each GPU; 1 to Ticket::kProcessesMax
  std::vector<std::string> models{};       // any of these; none: any
  bool same_server = false;
  std::string isolation = "strict";  // PoolGpu::isolations
  std::string priority = "normal";   // PoolGpu::priorities
  std::string host{};                // only servers of this host; empty: of any

  friend auto operator<=>(const Wish&, const Wish&) = default;
};

// The memory that a job's contexts take on this GPU, in bytes.
uint64_t ContextsOf(const PoolGpu& gpu, uint32_t processes);

// The default memory in bytes: the same part of the GPU's memory as `share` is of its time, less the contexts. So jobs with
// equal shares fill time and memory alike. A multiple of 2 MiB; 0: the contexts leave nothing.
uint64_t DefaultMemory(const PoolGpu& gpu, uint32_t share, uint32_t processes);

// The amount that a job takes of this GPU: its share, its memory and its contexts.
GpuAmount AmountOf(const Wish& wish, const PoolGpu& gpu);

}  // namespace tessera
