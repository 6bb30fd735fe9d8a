// Where the time of a traced process went, reckoned from its trace. Pure.
//
// One thread is looked at: the one that was longest in calls, which is the one that gives the GPU work as a rule. Its time is
// divided without rest: what it did outside of calls, calls that waited for nobody, and what it waited for in others. Of a wait
// that part is the GPU's while a GPU was busy, that part the server's while it executed a record of this thread, and the rest is
// the way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netaware/trace/trace_facts.h"

namespace tessera {

struct TraceSummary {
  // Calls of one function by one thread that waited, or launches of one kernel.
  struct Sum {
    std::string name;
    std::string thread;  // of the program; empty: of all
    uint64_t count = 0;
    double ns = 0;  // without what the GPU was busy for
  };

  std::string program;
  uint64_t threads = 0;  // that made calls
  uint64_t servers = 0;
  bool over_link = false;
  double wall_ns = 0;  // from the first call to the end of the last

  double gpu_ns = 0;  // that a GPU was busy with what was measured
  uint64_t launches = 0;
  uint64_t unmeasured = 0;
  std::vector<Sum> kernels;  // the longest first

  // Of the thread.
  std::string thread;
  uint64_t calls = 0;
  double program_ns = 0;  // outside of calls
  double library_ns = 0;  // in calls that did not wait
  double gpu_wait_ns = 0;
  double server_ns = 0;
  double way_ns = 0;  // to the server and back

  uint64_t round_trips = 0;       // answers that calls of all threads waited for
  std::vector<Sum> functions;     // that waited; the longest first
  uint64_t launch_calls = 0;      // of all threads
  uint64_t waiting_launches = 0;  // of those
  uint64_t events_lost = 0;
};

TraceSummary Summarize(const TraceFacts& facts);

}  // namespace tessera
