#include "protocol/rpc/rpc_lanes.h"

namespace tessera {

grpc::Server& RpcLanes::Of(const std::string& holder, Standing standing) {
  MutexLock lock(mutex_);
  Lanes& lanes = lanes_[static_cast<size_t>(standing)];
  const size_t at = standing == Standing::kNobody ? 0 : lanes.of.try_emplace(holder, lanes.of.size() % kLanesMax).first->second;
  if (at >= lanes.servers.size()) lanes.servers.resize(at + 1);
  std::unique_ptr<grpc::Server>& server = lanes.servers[at];
  if (server == nullptr) server = build_(standing);
  return *server;
}

}  // namespace tessera
