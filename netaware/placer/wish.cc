#include "netaware/placer/wish.h"

#include <algorithm>
#include <limits>

namespace tessera {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{2} << 20;

}  // namespace

uint64_t DefaultMemory(const PoolGpu& gpu, uint32_t share) {
  // 128 bits: a share of 100,000 GiB is more than 64 have.
  const auto part = static_cast<uint64_t>(static_cast<unsigned __int128>(gpu.all.memory_bytes) * share / kWholeShare);
  return (part - std::min(part, gpu.context_bytes)) / kPieceBytes * kPieceBytes;
}

GpuAmount AmountOf(const Wish& wish, const PoolGpu& gpu) {
  const uint64_t memory_bytes = wish.memory_bytes ? *wish.memory_bytes : DefaultMemory(gpu, wish.share);
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  return {wish.share, memory_bytes > most - gpu.context_bytes ? most : memory_bytes + gpu.context_bytes};
}

}  // namespace tessera
