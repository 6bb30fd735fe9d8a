// The calls of those who want to know what happened (protocol/control/events.proto): who sees what. Answers come from the store's
// thread; the one that decides has no part in it.
#pragma once

#include <memory>

#include "generated/control/events.grpc.pb.h"
#include "netaware/service/placer_loop.h"
#include "netaware/service/roles_file.h"
#include "protocol/rpc/rpc_connections.h"

namespace tessera {

class EventCalls : public control::v1::EventService::CallbackService {
 public:
  static constexpr size_t kListedMax = 4'000;
  static constexpr size_t kWaitingMax = 2'048;  // events that somebody has not read; one more, and he is turned away

  // All of them live as long as the server.
  EventCalls(PlacerLoop& loop, RolesFile& roles, RpcConnections& connections)
      : loop_(loop), roles_(roles), connections_(connections) {}

  grpc::ServerUnaryReactor* ListEvents(grpc::CallbackServerContext* context, const control::v1::ListEventsRequest* request,
                                       control::v1::EventList* list) override;
  grpc::ServerWriteReactor<control::v1::Event>* WatchEvents(grpc::CallbackServerContext* context,
                                                            const control::v1::WatchEventsRequest* request) override;

 private:
  // Ok: `holder` may see some events, or, of an audit, all.
  grpc::Status MaySee(const std::string& holder, bool audit);

  PlacerLoop& loop_;
  RolesFile& roles_;
  RpcConnections& connections_;
};

}  // namespace tessera
