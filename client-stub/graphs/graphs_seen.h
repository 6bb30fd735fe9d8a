// What any graph of the process ever had. While none had it, calls need not look closer. Any thread.
#pragma once

#include <atomic>

#include "client-stub/process/process_part.h"

namespace tessera {

struct GraphsSeen {
  static GraphsSeen& Process() { return PartOfProcess<GraphsSeen>::Get(); }

  std::atomic<bool> memory{false};         // memory of its own (graph_memory.h)
  std::atomic<bool> unchecked_set{false};  // a captured memset whose memory was not known (captured_sets.h)
};

}  // namespace tessera
