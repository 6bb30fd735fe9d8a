// The calls of gRPC that are open at the control API, and who waits for what.
//
//   ControlCalls calls(queue, connections, administrators);
//   ControlCalls::Lane lane(builder); server = builder.BuildAndStart();
//   calls.Begin(lane), WatchCall::Await(calls, lane), UsageCall::Await(calls, lane);
//   lane.TendOne();                                   // from a thread of each lane, for ever
//   calls.Deliver();                                  // from another, whenever queue.answer_fd() is readable
//
// There may be several servers of gRPC, each with a lane of its own.
// Each call goes to the broker's thread by the queue, and its answer comes back from there. Whoever watches is told what List
// answers, and again when that has changed; one state waits for whoever does not read, and it is always the last.
//
// It is never destroyed while the server runs: both end with the process.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "generated/control/vgpu.grpc.pb.h"
#include "protocol/base/mutex.h"
#include "protocol/rpc/holder_shares.h"
#include "protocol/rpc/rpc_connections.h"
#include "server/broker/call_queue.h"

namespace tessera {

// An open call that waits for the broker.
class WaitingCall {
 public:
  virtual ~WaitingCall() = default;
  virtual void Answer(const VgpuAnswer& answer) = 0;
};
// One that goes on.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void Tell(const std::vector<ShownVgpu>& all) = 0;
  // Others have its place: it ends.
  virtual void MakeRoom() = 0;
};
// What gRPC's completion queue gives back.
class GrpcEvent {
 public:
  virtual ~GrpcEvent() = default;
  // In the thread of TendOne(). `ok`: as gRPC has it.
  virtual void Happened(bool ok) = 0;
};

class UsageFront;

class ControlCalls {
 public:
  using Service = control::v1::VgpuService::AsyncService;
  // One server's part in it. It lives as long as the process.
  class Lane {
   public:
    explicit Lane(grpc::ServerBuilder& builder);
    // Waits for what happens to a call of this server, and lets it go on. One thread.
    void TendOne();
    Service& service() { return service_; }
    grpc::ServerCompletionQueue* completions() { return completions_.get(); }

   private:
    Service service_;
    std::unique_ptr<grpc::ServerCompletionQueue> completions_;
  };
  // Calls that watch: for one more another of its holder ends, or of him who has most (protocol/rpc/holder_shares.h).
  // Administrators have as many of their own.
  static constexpr HolderShares::Bounds kWatchers{.of_holder = 16, .in_all = 64};
  static constexpr HolderShares::Bounds kWatchersOfAdministrators{.of_holder = 64, .in_all = 64};
  // Calls that wait for the broker: one more is refused. The rest of CallQueue::kCallsMax is the administrators'.
  static constexpr HolderShares::Bounds kWaiting{.of_holder = 48, .in_all = 192};

  // `usage`: null: there are no usage records.
  ControlCalls(CallQueue& queue, RpcConnections& connections, std::vector<std::string> administrators,
               UsageFront* usage = nullptr)
      : queue_(queue), connections_(connections), administrators_(std::move(administrators)), usage_(usage) {}

  // Waits for calls of a lane that have one answer of the broker's.
  void Begin(Lane& lane);
  void Deliver();

  // The holder who has this call's connection. Empty: it cannot be told.
  std::string HolderOf(const grpc::ServerContext& context) { return connections_.HolderOf(context.peer()); }

  // For the calls. False: too many wait, or watch.
  bool Send(const std::shared_ptr<WaitingCall>& call, VgpuCall what);
  bool AddWatcher(const std::shared_ptr<Watcher>& watcher, const std::string& holder);
  void RemoveWatcher(const Watcher* watcher);
  const std::vector<std::string>& administrators() const { return administrators_; }
  UsageFront* usage() const { return usage_; }
  bool IsAdministrator(std::string_view holder) const;

 private:
  struct Waiting {
    std::shared_ptr<WaitingCall> call;
    VgpuCall what;
  };

  CallQueue& queue_;
  RpcConnections& connections_;
  const std::vector<std::string> administrators_;
  UsageFront* const usage_;
  VgpuList told_;  // of Deliver()
  Mutex mutex_;
  uint64_t last_number_ GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Waiting> waiting_ GUARDED_BY(mutex_);
  std::map<HolderShares::Id, std::shared_ptr<Watcher>> watchers_ GUARDED_BY(mutex_);
  HolderShares watching_ GUARDED_BY(mutex_){kWatchers}, administrators_watching_ GUARDED_BY(mutex_){kWatchersOfAdministrators};
};

}  // namespace tessera
