// What one session shares with others, and the token that names it.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "protocol/base/unique_fd.h"

namespace tessera {

// Names a share; unguessable.
struct ShareToken {
  std::array<std::byte, 32> bytes{};
  friend auto operator<=>(const ShareToken&, const ShareToken&) = default;
};

// A token that nobody ever had (getrandom(2)).
ShareToken NewShareToken();

enum class ShareKind : uint32_t {
  kNone = 0,
  kBlock = 1,       // a block of cuMemAlloc inside a physical allocation
  kAllocation = 2,  // a physical allocation of the application's (cuMemCreate)
  kPool = 3,        // a memory pool
  kEvent = 4,       // no descriptor: the driver's 64 bytes
};

// Travels between processes of one build as it is.
struct ShareFacts {
  ShareKind kind = ShareKind::kNone;
  uint32_t padding = 0;
  uint64_t allocation_bytes = 0;  // kBlock, kAllocation: of the physical allocation
  uint64_t offset = 0;            // kBlock: where the block begins in it
  uint64_t block_bytes = 0;       // kBlock
  std::array<std::byte, 64> event{};
};

// A share as it was fetched: the descriptor is the fetcher's own copy, and invalid for an event.
struct Share {
  ShareFacts facts;
  UniqueFd fd;
};

}  // namespace tessera
