// What a trace (TESSERA_TRACE, client-stub/session/trace.h) tells of a process: plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "netaware/trace/spans.h"

namespace tessera {

struct TraceFacts {
  using Name = uint32_t;  // a number in `names`

  struct Call {
    uint32_t thread = 0;
    Name name = 0;
    Span span;
    uint64_t waits = 0;  // for how many answers of a server it waited
  };
  // A record that a worker executed.
  struct Execution {
    uint32_t thread = 0;  // of the program, which sent it
    Span span;
  };
  // A kernel or a graph on a GPU.
  struct Work {
    Name name = 0;
    Span span;
  };

  std::string program;
  std::map<uint32_t, std::string> threads;  // names of the program's
  std::vector<std::string> names;           // of functions and kernels
  std::vector<Call> calls;
  std::vector<Execution> executions;
  std::vector<Work> work;
  uint64_t servers = 0;
  bool over_link = false;    // records of one of them went over a link
  uint64_t events_lost = 0;  // that the trace had no room for
  uint64_t unmeasured = 0;   // launches whose times nobody knows
};

}  // namespace tessera
