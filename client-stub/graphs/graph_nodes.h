// What the client library keeps about graph nodes and instantiated graphs.
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

// The memory behind pointers that calls handed out when they described a node's parameters. Natively such pointers lead into the
// node. They stay valid until its parameters are set or it is destroyed. Any thread.
class NodeParameters {
 public:
  // Keeps `packed`, the packed parameters of a kernel node. Returns an array with a pointer to each one; null: there are none.
  void** Keep(HandleId node, const FunctionInfo& function, std::span<const std::byte> packed) EXCLUDES(mutex_);
  // Keeps the array of a node of another kind and returns it; null: it has no elements.
  template <typename T>
  T* KeepArray(HandleId node, std::span<const T> elements) EXCLUDES(mutex_) {
    return elements.empty() ? nullptr : reinterpret_cast<T*>(KeepBytes(node, std::as_bytes(elements)));
  }
  // The node was destroyed: its pointers end.
  void Drop(HandleId node) EXCLUDES(mutex_);

 private:
  struct Kept {
    std::vector<std::byte> packed;
    std::vector<void*> pointers;
  };
  std::byte* KeepBytes(HandleId node, std::span<const std::byte> bytes) EXCLUDES(mutex_);
  // Puts these bytes into the node's entry. If they are there already, pointers that were handed out stay valid.
  Kept& KeepLocked(HandleId node, std::span<const std::byte> bytes) REQUIRES(mutex_);

  Mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<Kept>> nodes_ GUARDED_BY(mutex_);
};

struct GraphExecInfo {
  // The driver has accepted a launch since the last change, so further launches need no answer.
  std::atomic<bool> launched{false};
  // The visits of the instance's nodes that read ordinary memory (graph_shadow.h). The server named them before the first launch
  // since the last change.
  Mutex mutex;
  std::vector<uint64_t> sources GUARDED_BY(mutex);
};

// The tables of this process. Any thread.
inline NodeParameters& NodeParametersOfProcess() { return PartOfProcess<NodeParameters>::Get(); }
inline SlotTable<GraphExecInfo>& GraphExecs() { return PartOfProcess<SlotTable<GraphExecInfo>>::Get(); }

// Appends the ids of `count` nodes that the application passed to `ids`. False: the call failed, with CUDA_ERROR_INVALID_VALUE if
// the array is null. Calling thread of the call.
bool UseNodes(Call& call, const CUgraphNode* nodes, size_t count, std::vector<HandleId>* ids);

// Forgets the handles of nodes, and of the graphs embedded in them, that ended with their graph or node. Calling thread of the
// call.
void EndHandles(Call& call, const Array<HandleId>& ended);

}  // namespace tessera
