#include "client-stub/session/device_graph_table.h"

#include "client-stub/session/client.h"
#include "client-stub/session/session.h"

namespace tessera {
namespace {

// Whether it is the id of an executable graph of any session.
bool IsLiveId(HandleId id) {
  Session* const session = Client::Get().SessionOf(id);
  return session != nullptr && session->handles().IsLive(id, HandleKind::kGraphExec);
}

}  // namespace

HandleId DeviceGraphs::Find(uint64_t value) const {
  MutexLock lock(mutex_);
  const auto found = graphs_.find(value);
  return found == graphs_.end() ? HandleId(value) : found->second.exec;
}

bool DeviceGraphs::Add(uint64_t value, HandleId exec, HandleId context) {
  {
    MutexLock lock(mutex_);
    const auto [place, fresh] = graphs_.try_emplace(value);
    const HandleId before = place->second.exec;
    if (!fresh && before.session() != exec.session() && IsLiveId(before)) return false;
    place->second = Graph{exec, context};
    count_.store(graphs_.size(), std::memory_order_release);
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

void DeviceGraphs::EndContext(HandleId context) {
  MutexLock lock(mutex_);
  std::erase_if(graphs_, [&](const auto& entry) { return entry.second.context == context; });
  count_.store(graphs_.size(), std::memory_order_release);
}

}  // namespace tessera
