// The streams of nodes (protocol/control/node.proto): checks who may join, and passes messages between a node and the loop.
#pragma once

#include "generated/control/node.grpc.pb.h"
#include "netaware/service/placer_loop.h"
#include "netaware/service/roles_file.h"
#include "protocol/rpc/rpc_connections.h"

namespace tessera {

class NodeCalls : public control::v1::NodeService::CallbackService {
 public:
  // All of them live as long as the server.
  NodeCalls(PlacerLoop& loop, RolesFile& roles, RpcConnections& connections)
      : loop_(loop), roles_(roles), connections_(connections) {}

  grpc::ServerBidiReactor<control::v1::FromNode, control::v1::ToNode>* Attach(grpc::CallbackServerContext* context) override;

 private:
  PlacerLoop& loop_;
  RolesFile& roles_;
  RpcConnections& connections_;
};

}  // namespace tessera
