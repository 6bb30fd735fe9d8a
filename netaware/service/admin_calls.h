// The calls of administrators (protocol/control/admin.proto): who may make them, and the loop's answers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "generated/control/admin.grpc.pb.h"
#include "netaware/service/placer_loop.h"
#include "netaware/service/roles_file.h"
#include "protocol/rpc/rpc_connections.h"

namespace tessera {

class AdminCalls : public control::v1::AdminService::CallbackService {
 public:
  // All of them live as long as the server.
  AdminCalls(PlacerLoop& loop, RolesFile& roles, RpcConnections& connections)
      : loop_(loop), roles_(roles), connections_(connections) {}

  grpc::ServerUnaryReactor* Cordon(grpc::CallbackServerContext* context, const control::v1::CordonRequest* request,
                                   control::v1::ServerChange* change) override;
  grpc::ServerUnaryReactor* Uncordon(grpc::CallbackServerContext* context, const control::v1::UncordonRequest* request,
                                     control::v1::ServerChange* change) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context, const control::v1::DrainRequest* request,
                                  control::v1::ServerChange* change) override;
  grpc::ServerUnaryReactor* Remove(grpc::CallbackServerContext* context, const control::v1::RemoveRequest* request,
                                   control::v1::ServerChange* change) override;
  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* context, const control::v1::PlaceRequest* request,
                                 control::v1::PlanAnswer* answer) override;

 private:
  // Does `act` for an administrator, and answers when the store has the transaction that it returned; if that is empty, at
  // once.
  using Act = std::function<Result<StoreTransaction>(PlacerCore& core, const std::string& holder, int64_t now_ms)>;
  grpc::ServerUnaryReactor* Change(grpc::CallbackServerContext* context, const char* action, const std::string& server,
                                   control::v1::ServerChange* change, Act act);
  // Records a refusal, and returns its status.
  grpc::Status NotAllowed(const std::string& holder, const char* action, const std::string& server, const std::string& what);

  PlacerLoop& loop_;
  RolesFile& roles_;
  RpcConnections& connections_;
};

}  // namespace tessera
