#include "netaware/placer/wish.h"

#include <algorithm>
#include <limits>

namespace tessera {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{2} << 20;
constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

}  // namespace

uint64_t ContextsOf(const PoolGpu& gpu, uint32_t processes) {
  return processes != 0 && gpu.context_bytes > kMost / processes ? kMost : gpu.context_bytes * processes;
}

uint64_t DefaultMemory(const PoolGpu& gpu, uint32_t share, uint32_t processes) {
  // 128 bits: 100,000 GiB times a share needs more than 64.
  const auto part = static_cast<uint64_t>(static_cast<unsigned __int128>(gpu.all.memory_bytes) * share / kWholeShare);
  return (part - std::min(part, ContextsOf(gpu, processes))) / kPieceBytes * kPieceBytes;
}

GpuAmount AmountOf(const Wish& wish, const PoolGpu& gpu) {
  const uint64_t memory_bytes = wish.memory_bytes ? *wish.memory_bytes : DefaultMemory(gpu, wish.share, wish.processes);
  const uint64_t contexts = ContextsOf(gpu, wish.processes);
  return {wish.share, memory_bytes > kMost - contexts ? kMost : memory_bytes + contexts};
}

}  // namespace tessera
