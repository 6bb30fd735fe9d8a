// What graphs of the process ever had, for calls that need not look closer before one did. Any thread.
#pragma once

#include <atomic>

#include "client-stub/process/process_part.h"

namespace tessera {

struct GraphsSeen {
  static GraphsSeen& Process() { return PartOfProcess<GraphsSeen>::Get(); }

  std::atomic<bool> memory{false};         // memory of their own (graph_memory.h)
  std::atomic<bool> unchecked_set{false};  // a captured set whose memory is not known (captured_sets.h)
};

}  // namespace tessera
