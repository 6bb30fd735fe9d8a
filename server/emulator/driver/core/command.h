// What a stream or a graph can do, as one object: made once by an entry point, run by a stream's thread or as a node of
// an instantiated graph. A command is immutable once submitted, so several launches may share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "server/emulator/driver/base/api.h"
#include "server/emulator/driver/base/fence.h"

namespace tessera::emulator {

class Context;

class Command {
 public:
  virtual ~Command() = default;
  virtual CUgraphNodeType type() const = 0;
  // Runs on a stream's thread. Anything but CUDA_SUCCESS becomes the context's sticky error.
  virtual CUresult Execute(Context& context) = 0;
  // Runs instead of Execute when the context has failed before the command's turn.
  virtual void Skip(Context& context) {}
  // How many bytes it moves or sets; none where it takes no time of a slowed device (pace.h).
  virtual std::optional<uint64_t> paced_bytes() const { return std::nullopt; }
  // What each thread of it needs of local memory (local_memory.h).
  virtual size_t local_bytes() const { return 0; }
  // Whether a graph that has this command as a node can be instantiated. With Driver::graph_mutex held.
  virtual bool MayInstantiate() const { return true; }
  // What one launch of a graph runs in place of this node; null for the command itself. Fences that the launch must
  // complete even when it is skipped are added to `pending`.
  virtual std::shared_ptr<Command> ForLaunch(std::vector<FencePtr>* pending) { return nullptr; }
};
using CommandPtr = std::shared_ptr<Command>;

// Does nothing: markers, event records and waits outside graphs, empty nodes.
class EmptyCommand : public Command {
 public:
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_EMPTY; }
  CUresult Execute(Context&) override { return CUDA_SUCCESS; }
};

// A host function. Driver calls it makes fail with CUDA_ERROR_NOT_PERMITTED.
class HostCommand : public Command {
 public:
  explicit HostCommand(const CUDA_HOST_NODE_PARAMS& params) : params_(params) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_HOST; }
  CUresult Execute(Context& context) override;
  const CUDA_HOST_NODE_PARAMS& params() const { return params_; }

 private:
  const CUDA_HOST_NODE_PARAMS params_;
};

}  // namespace tessera::emulator
