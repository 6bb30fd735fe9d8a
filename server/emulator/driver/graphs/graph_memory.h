// Memory of allocation nodes. Its addresses belong to the node from its creation on; memory lies there from the node's
// turn in a launch until a free, which may be a node, a call, or (with AUTO_FREE_ON_LAUNCH) the next launch. Between a free
// and the next allocation every access faults.
// What may be launched and freed is decided in the order of the calls, under Driver::graph_mutex.
// Source: CUDA driver API, "Graph Management", cuGraphAddMemAllocNode; CUDA C++ Programming Guide, "Graph Memory Nodes".
#pragma once

#include <memory>
#include <vector>

#include "server/emulator/driver/core/state.h"

namespace tessera::emulator {

class GraphMemory {
 public:
  // Addresses for an allocation node, known to pointer questions and to copies from now on.
  static CUresult Make(const CUDA_MEM_ALLOC_NODE_PARAMS& params, std::shared_ptr<GraphMemory>* memory);
  ~GraphMemory();
  // The memory whose first address this is; null when there is none.
  static std::shared_ptr<GraphMemory> Find(uint64_t address);

  const CUDA_MEM_ALLOC_NODE_PARAMS& params() const { return params_; }
  uint64_t address() const { return params_.dptr; }
  uint64_t mapped_bytes() const { return mapped_bytes_; }
  Device& device() const;

  // A submitted launch allocates it and no submitted work frees it.
  bool live() const { return alive_ != nullptr; }

  // In the order of execution.
  void Appear();
  void Vanish();

 private:
  friend class GraphMemoryPlan;
  CUDA_MEM_ALLOC_NODE_PARAMS params_{};
  std::vector<CUmemAccessDesc> access_;
  uint64_t mapped_bytes_ = 0;
  std::shared_ptr<GraphMemory> alive_;  // itself, while live: memory outlives its graph until it is freed
};
using GraphMemoryPtr = std::shared_ptr<GraphMemory>;

// What a launch or a free does to graph memory, decided when it is submitted.
class GraphMemoryPlan {
 public:
  // The calls of a launch, for each of its nodes in turn.
  void Allocate(const GraphMemoryPtr& memory) { allocated_.push_back(memory); }
  void Free(const GraphMemoryPtr& memory) { freed_.push_back(memory); }
  // CUDA_ERROR_INVALID_VALUE when memory that is allocated already is to be allocated (and may not be freed first), or
  // memory that is not is to be freed; CUDA_ERROR_OUT_OF_MEMORY. On success all of it counts as done, and `free_first`
  // holds what must be freed before the launch.
  CUresult Commit(bool auto_free, std::vector<GraphMemoryPtr>* free_first);

 private:
  std::vector<GraphMemoryPtr> allocated_, freed_;
};

class AllocCommand : public Command {
 public:
  explicit AllocCommand(GraphMemoryPtr memory) : memory_(std::move(memory)) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
  CUresult Execute(Context&) override;
  const GraphMemoryPtr& memory() const { return memory_; }

 private:
  const GraphMemoryPtr memory_;
};

class GraphFreeCommand : public Command {
 public:
  explicit GraphFreeCommand(GraphMemoryPtr memory) : memory_(std::move(memory)) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
  CUresult Execute(Context&) override;
  void Skip(Context& context) override { Execute(context); }
  const GraphMemoryPtr& memory() const { return memory_; }

 private:
  const GraphMemoryPtr memory_;
};

}  // namespace tessera::emulator
