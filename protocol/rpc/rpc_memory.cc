#include "protocol/rpc/rpc_memory.h"

#include <malloc.h>
#include <poll.h>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr uint64_t kQuietNs = 60'000'000'000;  // between two warnings

size_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

std::string ListOf(const std::set<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

}  // namespace

void RpcMemory::Run() {
  const size_t at_first = AllocatedBytes();
  size_t last = at_first;
  uint64_t warn_at_ns = 0;
  bool is_to_trim = false;
  for (;;) {
    const size_t now = AllocatedBytes();
    const bool is_much = now > at_first + kBytesMax;
    if (is_much) {
      const RpcConnections::Ended ended = connections_.EndGreedy();
      if (ended.count > 0 && MonotonicNs() >= warn_at_ns) {
        warn_at_ns = MonotonicNs() + kQuietNs;
        LogWarning("{}: {} connections of {} are closed: what they asked for takes {} MiB, and may take {}", what_, ended.count,
                   ListOf(ended.holders), (now - at_first) >> 20, kBytesMax >> 20);
      }
      is_to_trim = true;
    } else if (is_to_trim) {
      malloc_trim(0);  // it would stay this process's for ever
      is_to_trim = false;
    }
    const bool grows = is_much || now > last + kMuchBytes;
    last = now;
    poll(nullptr, 0, grows ? kShortPauseMs : connections_.empty() && !is_to_trim ? 10 * kPauseMs : kPauseMs);
  }
}

}  // namespace tessera
