// What the stub keeps about graph nodes and instantiated graphs.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/code/function_info.h"
#include "client-stub/process/process_part.h"
#include "client-stub/process/slot_table.h"
#include "protocol/base/mutex.h"
#include "protocol/runtime/array.h"

namespace tessera {

// What the calls that ask for a node's parameters handed out pointers to: natively they lead into the node and stay valid
// until its parameters are set or it is destroyed. Any thread.
class NodeParameters {
 public:
  // The array of parameter pointers of a kernel node whose packed parameters are `packed`; null when it has none.
  void** Keep(HandleId node, const FunctionInfo& function, std::span<const std::byte> packed) EXCLUDES(mutex_);
  // The array of a node of another kind; null when it has no elements.
  template <typename T>
  T* KeepArray(HandleId node, std::span<const T> elements) EXCLUDES(mutex_) {
    return elements.empty() ? nullptr : reinterpret_cast<T*>(KeepBytes(node, std::as_bytes(elements)));
  }
  void Drop(HandleId node) EXCLUDES(mutex_);

 private:
  struct Kept {
    std::vector<std::byte> packed;
    std::vector<void*> pointers;
  };
  std::byte* KeepBytes(HandleId node, std::span<const std::byte> bytes) EXCLUDES(mutex_);
  // The entry with these bytes: pointers handed out before stay as they are when nothing has changed.
  Kept& KeepLocked(HandleId node, std::span<const std::byte> bytes) REQUIRES(mutex_);

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

// Of this process.
inline NodeParameters& NodeParametersOfProcess() { return PartOfProcess<NodeParameters>::Get(); }
inline SlotTable<GraphExecInfo>& GraphExecs() { return PartOfProcess<SlotTable<GraphExecInfo>>::Get(); }

// An array of nodes that the application passed. False when the call failed.
bool UseNodes(Call& call, const CUgraphNode* nodes, size_t count, std::vector<HandleId>* ids);

// Handles that ended with their graph or node: nodes, and the graphs embedded in them.
void EndHandles(Call& call, const Array<HandleId>& ended);

}  // namespace tessera
