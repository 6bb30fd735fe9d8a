#include "protocol/rpc/rpc_memory.h"

#include <malloc.h>
#include <poll.h>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/rpc/memory_bound.h"

namespace tessera {
namespace {

constexpr uint64_t kQuietNs = 60'000'000'000;  // between two warnings

size_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace

void RpcMemory::Run() {
  MemoryBound bound(AllocatedBytes());
  size_t last = bound.own_bytes();
  uint64_t warn_at_ns = 0, taken = 0;
  bool is_to_trim = false;
  for (;;) {
    const size_t now = AllocatedBytes();
    const size_t bytes_max = bounds_.bytes_max + (bounds_.others ? bounds_.others() : 0);
    const size_t own = bound.own_bytes();
    const MemoryBound::Found found = bound.Look(now, bytes_max, connections_.empty(), MonotonicNs());
    const bool is_much = found != MemoryBound::Found::kFits;
    if (is_much) {
      const uint64_t now_ns = MonotonicNs();
      const RpcConnections::Ended ended = connections_.EndGreedy(now_ns);
      if (ended.count > 0 && now_ns >= warn_at_ns) {
        warn_at_ns = now_ns + kQuietNs;
        LogWarning("{}: {} connections of {} are closed: what they asked for takes {} MiB, and may take {}", what_, ended.count,
                   ended.holder, (now - own) >> 20, bytes_max >> 20);
      }
      if (found == MemoryBound::Found::kMuchOwn) {
        LogWarning("{}: {} MiB are taken by other things than connections: the bound for these is beyond that from now on", what_,
                   bound.own_bytes() >> 20);
      }
      is_to_trim = true;
    } else {
      // Otherwise the heap would keep the freed memory for ever.
      if (is_to_trim) malloc_trim(0);
      is_to_trim = false;
    }
    const bool grows = is_much || now > last + kMuchBytes;
    last = now;
    // A new client may begin a flood at once: look again soon after it connects.
    if (!grows) taken = connections_.AwaitMore(taken, connections_.empty() && !is_to_trim ? kLongPauseMs : kPauseMs);
    poll(nullptr, 0, kShortPauseMs);
  }
}

}  // namespace tessera
