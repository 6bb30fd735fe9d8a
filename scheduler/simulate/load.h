// Says what the programs of a simulated GPU do, one vGPU a line:
//
//   tessera-load 1
//   train request=0.7 kernel=200us
//   infer request=0.3 priority=protected kernel=500us burst=4ms rest=50ms chance=1
//
// The first line names the format and its version; # begins a comment. A field that a line leaves out has its default of Load. A
// time is a number followed by ns, us, ms or s. Any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"
#include "scheduler/policy.h"

namespace tessera {

// Rest, then work; again and again.
struct Load {
  // What one session did, as a trace tells it: rests and work by turns.
  struct Piece {
    int64_t rest_ns = 0;
    int64_t work_ns = 0;
  };
  struct Script {
    int64_t begin_ns = 0;
    int64_t end_ns = kNever;
    std::vector<Piece> pieces{};
  };

  VgpuSpec spec{};                // NAME, request=, limit=, priority=
  uint32_t sessions = 1;          // sessions=: each does all that follows
  int64_t begin_ns = 0;           // begin=: when its sessions come
  int64_t end_ns = kNever;        // end=: when they leave
  int64_t kernel_ns = 200'000;    // kernel=: how long a kernel runs on a GPU that it has to itself
  int64_t burst_ns = 0;           // burst=: how much work comes at once; 0: it never ends
  int64_t rest_ns = 0;            // rest=: between the end of a burst and the next
  bool chance = false;            // chance=1: kernel, burst and rest are means of exponential distributions
  std::vector<Script> scripts{};  // one for each session, instead of sessions, begin, end, burst and rest; empty: not used
};

// The words of a line, for people.
inline constexpr std::string_view kLoadForm =
    "NAME [request=SHARE] [limit=SHARE] [priority=protected|normal|best-effort] [sessions=N] [begin=TIME] [end=TIME] "
    "[kernel=TIME] [burst=TIME] "
    "[rest=TIME] [chance=0|1]";

// kInvalidArgument: the sentence begins with "line N:"; kVersionMismatch: of another version.
Result<std::vector<Load>> ParseLoads(std::string_view text);

}  // namespace tessera
