// From a graph to its instance, and from that to the command of a launch. A launch runs the nodes one after the other on the
// launching stream's thread, in an order drawn at random among those the edges allow, so that a missing edge shows.
// With Driver::graph_mutex held, but to run and destroy the command.
#pragma once

#include <cstddef>
#include <memory>

#include "server/emulator/driver/graphs/graph_exec.h"

namespace tessera::emulator {

// What a launch of `body` does to graph memory.
void PlanMemory(const ExecBody& body, GraphMemoryPlan* plan);
// Gives the context of `exec` the local memory that its kernels need, those of `more` among them.
CUresult RaiseLocalMemory(const GraphExec& exec, size_t more = 0);
// Null when the edges form a cycle, or a conditional body has nodes that may not be there.
std::shared_ptr<ExecBody> BuildBody(const Graph& graph);
// The command that runs one launch of `body`.
CommandPtr MakeGraphCommand(const GraphExecPtr& exec);

}  // namespace tessera::emulator
