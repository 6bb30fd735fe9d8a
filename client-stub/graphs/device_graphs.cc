#include "client-stub/graphs/device_graphs.h"

#include <unordered_set>

#include "client-stub/graphs/graph_nodes.h"
#include "client-stub/session/client.h"
#include "client-stub/session/session.h"
#include "generated/messages/service.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

// Whether it is the id of an executable graph of any session.
bool IsLiveId(HandleId id) {
  Session* const session = Client::Get().SessionOf(id);
  return session != nullptr && session->handles().IsLive(id, HandleKind::kGraphExec);
}

}  // namespace

DeviceGraphs& DeviceGraphs::Process() {
  static auto* graphs = new DeviceGraphs;
  return *graphs;
}

HandleId DeviceGraphs::Find(uint64_t value) const {
  MutexLock lock(mutex_);
  const auto found = graphs_.find(value);
  return found == graphs_.end() ? HandleId(value) : found->second.exec;
}

bool DeviceGraphs::Add(Session& session, uint64_t value, HandleId exec, HandleId context) {
  {
    static auto* watched = new std::unordered_set<Session*>;  // under the mutex
    MutexLock lock(mutex_);
    const auto [place, fresh] = graphs_.try_emplace(value);
    const HandleId before = place->second.exec;
    if (!fresh && before.session() != exec.session() && IsLiveId(before)) return false;
    place->second = Graph{exec, context};
    count_.store(graphs_.size(), std::memory_order_release);
    if (watched->insert(&session).second) {
      session.contexts().OnEnd([this](const Context& ended) { RemoveOf(ended.handle); });
    }
  }
  // Entered first, looked after: MintGraphExec() does it the other way round, so that one of the two sees the other.
  if (!IsLiveId(HandleId(value))) return true;
  Remove(value, exec);
  return false;
}

void DeviceGraphs::Remove(uint64_t value, HandleId exec) {
  MutexLock lock(mutex_);
  const auto found = graphs_.find(value);
  if (found == graphs_.end() || found->second.exec != exec) return;
  graphs_.erase(found);
  count_.store(graphs_.size(), std::memory_order_release);
}

void DeviceGraphs::RemoveOf(HandleId context) {
  MutexLock lock(mutex_);
  std::erase_if(graphs_, [&](const auto& entry) { return entry.second.context == context; });
  count_.store(graphs_.size(), std::memory_order_release);
}

HandleId MintGraphExec(Call& call) {
  const HandleId id = call.Mint(HandleKind::kGraphExec);
  return DeviceGraphs::Process().Has(id.value()) ? call.Mint(HandleKind::kGraphExec) : id;
}

CUresult StoreGraphExec(Call& call, HandleId exec, uint64_t device_graph, CUgraphExec* out) {
  uint64_t handle = exec.value();
  if (device_graph != 0) {
    handle = device_graph;
    if (!DeviceGraphs::Process().Add(call.session(), device_graph, exec, call.owner_context())) {
      LogWarning(
          "{}: {} gave a graph for kernels to launch the handle {:#x}, which another graph of this process has; use one server",
          call.info().name, call.session().Name(), device_graph);
      tesseraDeviceGraphDestroyRequest request;
      request.exec = exec;
      call.SyncAs(request);
      return call.Fail(CUDA_ERROR_NOT_SUPPORTED);
    }
  }
  *out = reinterpret_cast<CUgraphExec>(handle);
  return CUDA_SUCCESS;
}

CUresult DestroyDeviceGraph(Call& call, CUgraphExec handle) {
  if (!call.ok()) return call.result();
  tesseraDeviceGraphDestroyRequest request;
  request.exec = call.Free(HandleKind::kGraphExec, handle);
  if (!call.ok()) return call.result();
  const auto value = reinterpret_cast<uint64_t>(handle);
  const bool device_graph = DeviceGraphs::Process().Has(handle);
  // Before the driver may give the value again, and so before somebody may be told of it.
  DeviceGraphs::Process().Remove(value, request.exec);
  GraphExecs().Erase(request.exec);
  const CUresult result = call.SyncAs(request);
  if (result != CUDA_SUCCESS && device_graph)
    DeviceGraphs::Process().Add(call.session(), value, request.exec, call.owner_context());
  return result;
}

}  // namespace tessera
