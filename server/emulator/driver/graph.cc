#include "server/emulator/driver/graph.h"

#include <algorithm>

namespace tessera::emulator {
namespace {

struct LaunchNode {
  CommandPtr command;
  std::shared_ptr<std::vector<LaunchNode>> child;
  std::vector<size_t> dependencies;
};
using LaunchNodes = std::vector<LaunchNode>;
using References = std::vector<std::shared_ptr<const UserObjectReferences>>;

std::shared_ptr<LaunchNodes> Prepare(const ExecBody& body, std::vector<FencePtr>* pending, References* references) {
  auto nodes = std::make_shared<LaunchNodes>();
  references->push_back(body.references);
  for (const ExecNode& node : body.nodes) {
    LaunchNode launch{node.enabled ? node.command : nullptr, nullptr, node.dependencies};
    if (launch.command != nullptr) {
      if (CommandPtr own = launch.command->ForLaunch(pending)) launch.command = own;
    }
    if (node.child != nullptr) launch.child = Prepare(*node.child, pending, references);
    nodes->push_back(std::move(launch));
  }
  return nodes;
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
      GetDriver().RandomPause();
      RETURN_ON_ERROR(node.command->Execute(context));
    } else if (node.child != nullptr) {
      RETURN_ON_ERROR(RunNodes(*node.child, context));
    }
    for (size_t next : dependents[index]) {
      if (--waiting[next] == 0) ready.push_back(next);
    }
  }
  return CUDA_SUCCESS;
}

class GraphCommand : public Command {
 public:
  explicit GraphCommand(const ExecBody& body) : nodes_(Prepare(body, &pending_, &references_)) {}
  ~GraphCommand() override {
    for (const FencePtr& fence : pending_) {
      if (!fence->done()) fence->Complete();
    }
  }
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_GRAPH; }
  CUresult Execute(Context& context) override { return RunNodes(*nodes_, context); }

 private:
  std::vector<FencePtr> pending_;
  References references_;
  std::shared_ptr<LaunchNodes> nodes_;
};

void ReleaseAll(const std::map<uint64_t, uint64_t>& user_objects) {
  for (const auto& [handle, count] : user_objects) ReleaseUserObject(handle, count);
}

void RetainAll(const std::map<uint64_t, uint64_t>& user_objects) {
  for (const auto& [handle, count] : user_objects) {
    if (const auto object = GetDriver().user_objects.Find(handle)) object->Retain(count);
  }
}

}  // namespace

Graph::~Graph() { ReleaseAll(user_objects); }

UserObjectReferences::UserObjectReferences(const Graph& graph) : held_(graph.user_objects) { RetainAll(held_); }
UserObjectReferences::~UserObjectReferences() { ReleaseAll(held_); }

void ReleaseUserObject(uint64_t handle, uint64_t count) {
  std::unique_lock lock(GetDriver().graph_mutex);
  const auto object = GetDriver().user_objects.Find(handle);
  if (object == nullptr || !object->Release(count)) return;
  GetDriver().user_objects.Remove(handle);
  lock.unlock();
  object->destroy()(object->data());
}

GraphNodePtr Graph::FindNode(uint64_t node_handle) const {
  for (const GraphNodePtr& node : nodes) {
    if (node->handle == node_handle) return node;
  }
  return nullptr;
}

GraphNodePtr Graph::Add(CUgraphNodeType type, CommandPtr command, std::vector<uint64_t> dependencies) {
  auto node = std::make_shared<GraphNode>();
  node->graph = handle;
  node->type = type;
  node->command = std::move(command);
  node->dependencies = std::move(dependencies);
  node->handle = GetDriver().graph_nodes.Mint();
  nodes.push_back(node);
  GetDriver().graph_nodes.Put(node->handle, node);
  return node;
}

ExecNode* GraphExec::Find(uint64_t node_handle) {
  for (ExecNode& node : body->nodes) {
    if (node.node == node_handle) return &node;
  }
  return nullptr;
}

GraphPtr CreateGraph() {
  auto graph = std::make_shared<Graph>();
  graph->handle = GetDriver().graphs.Mint();
  GetDriver().graphs.Put(graph->handle, graph);
  return graph;
}

GraphPtr CloneGraph(const Graph& graph) {
  GraphPtr clone = CreateGraph();
  clone->cloned_from = graph.handle;
  std::map<uint64_t, uint64_t> names;
  for (const GraphNodePtr& node : graph.nodes) {
    const GraphNodePtr copy = clone->Add(node->type, node->command, {});
    copy->cloned_from = node->handle;
    copy->attributes = node->attributes;
    names[node->handle] = copy->handle;
    if (node->child != 0) {
      const GraphPtr child = CloneGraph(*GetDriver().graphs.Find(node->child));
      child->embedded = true;
      copy->child = child->handle;
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (uint64_t before : graph.nodes[i]->dependencies) clone->nodes[i]->dependencies.push_back(names[before]);
  }
  clone->user_objects = graph.user_objects;
  RetainAll(clone->user_objects);
  return clone;
}

void DestroyGraph(const GraphPtr& graph) {
  GetDriver().graphs.Remove(graph->handle);
  for (const GraphNodePtr& node : graph->nodes) {
    GetDriver().graph_nodes.Remove(node->handle);
    if (node->child == 0) continue;
    if (GraphPtr child = GetDriver().graphs.Find(node->child)) DestroyGraph(child);
  }
}

std::shared_ptr<ExecBody> BuildBody(const Graph& graph) {
  auto body = std::make_shared<ExecBody>();
  body->references = std::make_shared<const UserObjectReferences>(graph);
  std::map<uint64_t, size_t> index;
  for (size_t i = 0; i < graph.nodes.size(); ++i) index[graph.nodes[i]->handle] = i;
  for (const GraphNodePtr& node : graph.nodes) {
    ExecNode exec{node->handle, node->type, node->command, nullptr, {}, true};
    for (uint64_t before : node->dependencies) exec.dependencies.push_back(index.at(before));
    if (node->child != 0) {
      exec.child = BuildBody(*GetDriver().graphs.Find(node->child));
      if (exec.child == nullptr) return nullptr;
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

CommandPtr MakeGraphCommand(const ExecBody& body) { return std::make_shared<GraphCommand>(body); }

}  // namespace tessera::emulator
