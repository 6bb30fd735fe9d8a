// Divides the time of a traced process, computed from its trace. Pure.
//
// The summary covers one thread: the one that spent the longest time in calls, usually the one that gives work to the GPU. Its
// whole time is divided into the time outside of calls, calls that did not wait, and waits. A wait counts for the GPU while a
// GPU was busy, for the server while it executed a record of this thread, and otherwise for the way to the server and back.
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
    std::string thread;  // the program's thread; empty: all threads
    uint64_t count = 0;
    double ns = 0;  // for functions, without the time in which a GPU was busy
  };

  std::string program;
  uint64_t threads = 0;  // threads that made calls
  uint64_t servers = 0;
  bool over_link = false;
  double wall_ns = 0;  // from the first call to the end of the last

  double gpu_ns = 0;  // the time in which a GPU was busy with measured work
  uint64_t launches = 0;
  uint64_t unmeasured = 0;
  std::vector<Sum> kernels;  // the longest first

  // The time of the thread.
  std::string thread;
  uint64_t calls = 0;
  double program_ns = 0;  // outside of calls
  double library_ns = 0;  // in calls that did not wait
  double gpu_wait_ns = 0;
  double server_ns = 0;
  double way_ns = 0;  // to the server and back

  uint64_t round_trips = 0;       // answers that calls of all threads waited for
  std::vector<Sum> functions;     // functions that waited; the longest first
  uint64_t launch_calls = 0;      // of all threads
  uint64_t waiting_launches = 0;  // of those
  uint64_t events_lost = 0;
};

TraceSummary Summarize(const TraceFacts& facts);

}  // namespace tessera
