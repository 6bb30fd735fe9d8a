// What the stub keeps about graph nodes and instantiated graphs.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "client-stub/call.h"
#include "client-stub/function_info.h"
#include "client-stub/slot_table.h"
#include "protocol/base/mutex.h"

namespace tessera {

// The kernel parameters that cuGraphKernelNodeGetParams handed out: natively the pointers lead into the node and stay
// valid until its parameters are set or it is destroyed. Any thread.
class NodeParameters {
 public:
  // The array of parameter pointers of a node whose packed parameters are `packed`; null when it has none.
  void** Keep(HandleId node, const FunctionInfo& function, std::span<const std::byte> packed) EXCLUDES(mutex_);
  void Drop(HandleId node) EXCLUDES(mutex_);

 private:
  struct Kept {
    std::vector<std::byte> packed;
    std::vector<void*> pointers;
  };
  Mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<Kept>> nodes_ GUARDED_BY(mutex_);
};

struct GraphExecInfo {
  // The driver has accepted a launch since the last change: further launches need no answer.
  std::atomic<bool> launched{false};
  // What it reads of ordinary memory, as the server said before the first launch since the last change (graph_shadow.h).
  Mutex mutex;
  std::vector<uint64_t> sources GUARDED_BY(mutex);
};

// Of this process; never destroyed.
NodeParameters& NodeParametersOfProcess();
SlotTable<GraphExecInfo>& GraphExecs();

// An array of nodes that the application passed. False when the call failed.
bool UseNodes(Call& call, const CUgraphNode* nodes, size_t count, std::vector<HandleId>* ids);

}  // namespace tessera
