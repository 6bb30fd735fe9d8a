// The facts that a trace (TESSERA_TRACE, client-stub/session/trace.h) contains about a process: plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "netaware/trace/spans.h"

namespace tessera {

struct TraceFacts {
  using Name = uint32_t;  // an index of `names`

  struct Call {
    uint32_t thread = 0;
    Name name = 0;
    Span span;
    uint64_t waits = 0;  // the number of server answers that it waited for
  };
  // A record that a worker executed.
  struct Execution {
    uint32_t thread = 0;  // the program's thread that sent it
    Span span;
  };
  // A kernel or a graph on a GPU.
  struct Work {
    Name name = 0;
    Span span;
  };

  std::string program;
  std::map<uint32_t, std::string> threads;  // the names of the program's threads
  std::vector<std::string> names;           // the names of functions and kernels
  std::vector<Call> calls;
  std::vector<Execution> executions;
  std::vector<Work> work;
  uint64_t servers = 0;
  bool over_link = false;    // the records of at least one server went over a link
  uint64_t events_lost = 0;  // events that the trace had no room for
  uint64_t unmeasured = 0;   // launches without measured times
};

}  // namespace tessera
