#include "server/emulator/driver/graphs/graph_launch.h"

#include <algorithm>
#include <map>
#include <utility>

#include "server/emulator/driver/core/pace.h"
#include "server/emulator/driver/graphs/device_graphs.h"

namespace tessera::emulator {
namespace {

struct LaunchNode {
  CommandPtr command;
  std::shared_ptr<std::vector<LaunchNode>> child;
  std::vector<size_t> dependencies;
  ConditionPtr condition;
  CUgraphConditionalNodeType condition_type = CU_GRAPH_COND_TYPE_IF;
  std::vector<std::shared_ptr<std::vector<LaunchNode>>> bodies;
};
using LaunchNodes = std::vector<LaunchNode>;

std::shared_ptr<LaunchNodes> Prepare(const ExecBody& body, std::vector<FencePtr>* pending,
                                     std::vector<std::shared_ptr<UserReferences>>* held) {
  auto nodes = std::make_shared<LaunchNodes>();
  held->push_back(body.user_objects);
  for (const ExecNode& node : body.nodes) {
    LaunchNode launch{node.enabled ? node.command : nullptr, nullptr, node.dependencies, node.condition, node.condition_type, {}};
    if (launch.command != nullptr) {
      if (CommandPtr own = launch.command->ForLaunch(pending)) launch.command = own;
    }
    if (node.child != nullptr) launch.child = Prepare(*node.child, pending, held);
    for (const auto& inner : node.bodies) launch.bodies.push_back(Prepare(*inner, pending, held));
    nodes->push_back(std::move(launch));
  }
  return nodes;
}

CUresult RunNodes(const LaunchNodes& nodes, Context& context);

CUresult RunConditional(const LaunchNode& node, Context& context) {
  const std::atomic<uint32_t>& value = node.condition->value;
  switch (node.condition_type) {
    case CU_GRAPH_COND_TYPE_IF: {
      const size_t body = value != 0 ? 0 : 1;
      return body < node.bodies.size() ? RunNodes(*node.bodies[body], context) : CUDA_SUCCESS;
    }
    case CU_GRAPH_COND_TYPE_WHILE:
      while (value != 0 && !context.cancelled()) RETURN_ON_ERROR(RunNodes(*node.bodies[0], context));
      return CUDA_SUCCESS;
    case CU_GRAPH_COND_TYPE_SWITCH: {
      const uint32_t body = value;
      return body < node.bodies.size() ? RunNodes(*node.bodies[body], context) : CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

// Conditions get their defaults when the launch begins, those of bodies too.
void BeginConditions(const LaunchNodes& nodes) {
  for (const LaunchNode& node : nodes) {
    if (node.condition != nullptr) node.condition->Begin();
    if (node.child != nullptr) BeginConditions(*node.child);
    for (const auto& body : node.bodies) BeginConditions(*body);
  }
}

CUresult RunNodes(const LaunchNodes& nodes, Context& context) {
  std::vector<size_t> waiting(nodes.size()), ready;
  std::vector<std::vector<size_t>> dependents(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    waiting[i] = nodes[i].dependencies.size();
    for (size_t before : nodes[i].dependencies) dependents[before].push_back(i);
    if (waiting[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[GetDriver().Random() % ready.size()], ready.back());
    const size_t index = ready.back();
    ready.pop_back();
    if (context.cancelled()) return CUDA_SUCCESS;
    const LaunchNode& node = nodes[index];
    if (node.command != nullptr) {
      Pace(context, *node.command);
      RETURN_ON_ERROR(node.command->Execute(context));
    } else if (node.child != nullptr) {
      RETURN_ON_ERROR(RunNodes(*node.child, context));
    } else if (node.condition != nullptr) {
      RETURN_ON_ERROR(RunConditional(node, context));
    }
    for (size_t next : dependents[index]) {
      if (--waiting[next] == 0) ready.push_back(next);
    }
  }
  return CUDA_SUCCESS;
}

class GraphCommand : public Command {
 public:
  explicit GraphCommand(const GraphExecPtr& exec)
      : device_graph_(exec->device_graph == nullptr ? nullptr : exec), nodes_(Prepare(*exec->body, &pending_, &held_)) {}
  ~GraphCommand() override {
    for (const FencePtr& fence : pending_) {
      if (!fence->done()) fence->Complete();
    }
  }
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_GRAPH; }
  CUresult Execute(Context& context) override {
    GraphRun run(device_graph_);
    BeginConditions(*nodes_);
    RETURN_ON_ERROR(RunNodes(*nodes_, context));
    // What its kernels have launched, and what the kernels of those did.
    while (const auto body = run.Next()) {
      if (context.cancelled()) return CUDA_SUCCESS;
      std::vector<FencePtr> pending;
      std::vector<std::shared_ptr<UserReferences>> held;
      RETURN_ON_ERROR(RunNodes(*Prepare(*body, &pending, &held), context));
    }
    return CUDA_SUCCESS;
  }

 private:
  const GraphExecPtr device_graph_;  // null: it is not for launch by kernels
  std::vector<FencePtr> pending_;
  std::vector<std::shared_ptr<UserReferences>> held_;
  std::shared_ptr<LaunchNodes> nodes_;
};

// What the kernel that needs most of it needs for each thread.
size_t LocalBytes(const ExecBody& body) {
  size_t most = 0;
  for (const ExecNode& node : body.nodes) {
    if (node.command != nullptr) most = std::max(most, node.command->local_bytes());
    if (node.child != nullptr) most = std::max(most, LocalBytes(*node.child));
    for (const auto& inner : node.bodies) most = std::max(most, LocalBytes(*inner));
  }
  return most;
}

// What conditional bodies may consist of (CUDA driver API, CUDA_CONDITIONAL_NODE_PARAMS).
bool MayBeInBody(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_EMPTY || type == CU_GRAPH_NODE_TYPE_GRAPH ||
         type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

std::shared_ptr<ExecBody> Build(const Graph& graph, bool in_body) {
  auto body = std::make_shared<ExecBody>();
  body->user_objects = std::make_shared<UserReferences>(graph.user_objects);
  std::map<uint64_t, size_t> index;
  for (size_t i = 0; i < graph.nodes.size(); ++i) index[graph.nodes[i]->handle] = i;
  for (const GraphNodePtr& node : graph.nodes) {
    if (in_body && !MayBeInBody(node->type)) return nullptr;
    if (node->command != nullptr && !node->command->MayInstantiate()) return nullptr;
    ExecNode exec{node->handle, node->type,      CommandOfInstance(*node), nullptr, {},
                  true,         node->condition, node->condition_type,     {}};
    for (uint64_t before : node->dependencies) exec.dependencies.push_back(index.at(before));
    if (node->child != 0) {
      exec.child = Build(*GetDriver().graphs.Find(node->child), in_body);
      if (exec.child == nullptr) return nullptr;
    }
    for (CUgraph inner : node->bodies) {
      exec.bodies.push_back(Build(*GetDriver().graphs.Find(inner), true));
      if (exec.bodies.back() == nullptr) return nullptr;
    }
    body->nodes.push_back(std::move(exec));
  }
  // A cycle leaves nodes that never become ready.
  std::vector<size_t> waiting, ready;
  std::vector<std::vector<size_t>> dependents(body->nodes.size());
  for (size_t i = 0; i < body->nodes.size(); ++i) {
    waiting.push_back(body->nodes[i].dependencies.size());
    for (size_t before : body->nodes[i].dependencies) dependents[before].push_back(i);
    if (waiting[i] == 0) ready.push_back(i);
  }
  size_t done = 0;
  while (!ready.empty()) {
    const size_t node = ready.back();
    ready.pop_back();
    ++done;
    for (size_t next : dependents[node]) {
      if (--waiting[next] == 0) ready.push_back(next);
    }
  }
  return done == body->nodes.size() ? body : nullptr;
}

}  // namespace

void PlanMemory(const ExecBody& body, GraphMemoryPlan* plan) {
  for (const ExecNode& node : body.nodes) {
    if (node.child != nullptr) PlanMemory(*node.child, plan);
    if (node.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) plan->Allocate(static_cast<AllocCommand&>(*node.command).memory());
    if (node.type == CU_GRAPH_NODE_TYPE_MEM_FREE) plan->Free(static_cast<GraphFreeCommand&>(*node.command).memory());
  }
}

CUresult RaiseLocalMemory(const GraphExec& exec, size_t more) {
  const ContextPtr context = GetDriver().contexts.Find(exec.context_handle());
  return context == nullptr ? CUDA_SUCCESS : context->local_memory().Raise(std::max(more, LocalBytes(*exec.body)));
}

std::shared_ptr<ExecBody> BuildBody(const Graph& graph) { return Build(graph, false); }

CommandPtr MakeGraphCommand(const GraphExecPtr& exec) { return std::make_shared<GraphCommand>(exec); }

}  // namespace tessera::emulator
