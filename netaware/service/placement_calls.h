// The calls of jobs and administrators (protocol/control/placement.proto): who may make them, and the loop's answers.
#pragma once

#include <memory>

#include "generated/control/placement.grpc.pb.h"
#include "netaware/service/placer_loop.h"
#include "netaware/service/roles_file.h"
#include "protocol/rpc/rpc_connections.h"

namespace tessera {

class PlacementCalls : public control::v1::PlacementService::CallbackService {
 public:
  // All of them live as long as the server.
  PlacementCalls(PlacerLoop& loop, RolesFile& roles, RpcConnections& connections)
      : loop_(loop), roles_(roles), connections_(connections) {}

  grpc::ServerWriteReactor<control::v1::GrantState>* Place(grpc::CallbackServerContext* context,
                                                           const control::v1::PlaceRequest* request) override;
  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context, const control::v1::RenewRequest* request,
                                  control::v1::GrantState* state) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context, const control::v1::ReleaseRequest* request,
                                    control::v1::GrantState* state) override;
  grpc::ServerUnaryReactor* GetGrant(grpc::CallbackServerContext* context, const control::v1::GetGrantRequest* request,
                                     control::v1::GrantState* state) override;
  grpc::ServerUnaryReactor* ListGrants(grpc::CallbackServerContext* context, const control::v1::ListGrantsRequest* request,
                                       control::v1::GrantList* list) override;
  grpc::ServerUnaryReactor* ListServers(grpc::CallbackServerContext* context, const control::v1::ListServersRequest* request,
                                        control::v1::ServerList* list) override;
  grpc::ServerUnaryReactor* Whoami(grpc::CallbackServerContext* context, const control::v1::WhoamiRequest* request,
                                   control::v1::WhoamiAnswer* answer) override;

 private:
  // The caller, and the roles of that moment.
  struct Caller {
    std::string user;    // from the connection; the roles are for this holder
    std::string holder;  // the holder of the grants that he asks for
    bool Has(const std::string& grants_holder) const {
      return !user.empty() && (grants_holder == holder || grants_holder == user);
    }
    std::shared_ptr<const Roles> roles;
  };
  Caller WhoCalls(const grpc::CallbackServerContext& context);
  // Records a refusal, and returns its status.
  grpc::Status NotAllowed(const std::string& holder, const char* action);
  enum class Right { kSee, kKeep, kEnd };
  // Does `act` with a grant that the caller may see, or (kKeep, kEnd) may end; kEnd is answered when the end is stored.
  using Act = std::function<Status(PlacerCore& core, const GrantView& view, int64_t now_ms)>;
  grpc::ServerUnaryReactor* WithGrant(grpc::CallbackServerContext* context, const std::string& grant, Right right,
                                      control::v1::GrantState* state, Act act);

  PlacerLoop& loop_;
  RolesFile& roles_;
  RpcConnections& connections_;
};

}  // namespace tessera
