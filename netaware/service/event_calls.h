// The calls of EventService (protocol/control/events.proto), with the rights to see events. Answers come from the store's
// thread, without the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "generated/control/events.grpc.pb.h"
#include "netaware/service/placer_loop.h"
#include "netaware/service/roles_file.h"
#include "protocol/base/mutex.h"
#include "protocol/rpc/holder_shares.h"
#include "protocol/rpc/rpc_connections.h"

namespace tessera {

// The watches of events. Each event is sent to each watch, so their number is bounded: beyond it, an oldest watch ends for a
// newer one. Any thread.
class EventWatches {
 public:
  // These bounds hold for trusted holders (Standing::kTrusted), and again for all others.
  static constexpr HolderShares::Bounds kBounds{.of_holder = 64, .in_all = 1'024};

  // Enters a watch. `end` ends it, and is called once at most, before Leave().
  uint64_t Come(const std::string& holder, Standing standing, std::function<void()> end) EXCLUDES(mutex_);
  void Leave(uint64_t number) EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  uint64_t last_ GUARDED_BY(mutex_) = 0;
  HolderShares trusted_ GUARDED_BY(mutex_){kBounds}, others_ GUARDED_BY(mutex_){kBounds};
  std::map<uint64_t, std::function<void()>> ends_ GUARDED_BY(mutex_);
};

class EventCalls : public control::v1::EventService::CallbackService {
 public:
  static constexpr size_t kListedMax = 4'000;
  static constexpr size_t kWaitingMax = 2'048;  // unread events of a watch; one more ends it

  // All of them live as long as the server.
  EventCalls(PlacerLoop& loop, RolesFile& roles, RpcConnections& connections)
      : loop_(loop), roles_(roles), connections_(connections) {}

  grpc::ServerUnaryReactor* ListEvents(grpc::CallbackServerContext* context, const control::v1::ListEventsRequest* request,
                                       control::v1::EventList* list) override;
  grpc::ServerWriteReactor<control::v1::Event>* WatchEvents(grpc::CallbackServerContext* context,
                                                            const control::v1::WatchEventsRequest* request) override;

 private:
  // Ok: `holder` may see some events or, with `audit`, all of them. Records a refusal.
  grpc::Status MaySee(const std::string& holder, bool audit);

  PlacerLoop& loop_;
  RolesFile& roles_;
  RpcConnections& connections_;
  const std::shared_ptr<EventWatches> watches_ = std::make_shared<EventWatches>();  // shared with the streams
};

}  // namespace tessera
