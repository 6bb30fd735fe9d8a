#include "protocol/rpc/rpc_memory.h"

#include <malloc.h>
#include <poll.h>

#include <algorithm>

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
  size_t at_first = AllocatedBytes();
  size_t last = at_first;
  uint64_t warn_at_ns = 0;
  uint64_t much_from_ns = 0;  // it has been too much since then, whoever was ended; 0: it is not
  size_t least = 0;           // since then
  bool is_to_trim = false;
  for (;;) {
    const size_t now = AllocatedBytes();
    const size_t bytes_max = bounds_.bytes_max + (bounds_.others ? bounds_.others() : 0);
    const bool is_much = now > at_first + bytes_max;
    if (is_much) {
      const RpcConnections::Ended ended = connections_.EndGreedy();
      const uint64_t now_ns = MonotonicNs();
      if (ended.count > 0 && now_ns >= warn_at_ns) {
        warn_at_ns = now_ns + kQuietNs;
        LogWarning("{}: {} connections of {} are closed: what they asked for takes {} MiB, and may take {}", what_, ended.count,
                   ListOf(ended.holders), (now - at_first) >> 20, bytes_max >> 20);
      }
      least = much_from_ns == 0 ? now : std::min(least, now);
      if (much_from_ns == 0) much_from_ns = now_ns;
      if (now_ns - much_from_ns >= kOthersNs) {
        LogWarning("{}: {} MiB are taken by other things than connections: the bound for these is beyond that from now on", what_,
                   least >> 20);
        at_first = least;
        much_from_ns = 0;
      }
      is_to_trim = true;
    } else {
      much_from_ns = 0;
      // It would stay this process's for ever.
      if (is_to_trim) malloc_trim(0);
      is_to_trim = false;
    }
    const bool grows = is_much || now > last + kMuchBytes;
    last = now;
    poll(nullptr, 0, grows ? kShortPauseMs : connections_.empty() && !is_to_trim ? 10 * kPauseMs : kPauseMs);
  }
}

}  // namespace tessera
