// A call of Watch. What it is told and what gRPC does comes from two threads.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/broker/control/control_calls.h"

namespace tessera {

class WatchCall : public WaitingCall, public Watcher, public std::enable_shared_from_this<WatchCall> {
 public:
  // Waits for the next such call.
  static void Await(ControlCalls& calls, ControlCalls::Lane& lane);

  WatchCall(ControlCalls& calls, ControlCalls::Lane& lane) : calls_(calls), lane_(lane), writer_(&context_) {}
  // Of all the state its holder sees a part, which is written if it is another than the last one.
  void Tell(const std::vector<ShownVgpu>& all) override;
  void Answer(const VgpuAnswer& answer) override;
  void MakeRoom() override;

 private:
  struct Step : GrpcEvent {
    explicit Step(WatchCall& call, void (WatchCall::*happened)(bool)) : call(call), happened(happened) {}
    void Happened(bool ok) override { (call.*happened)(ok); }
    WatchCall& call;
    void (WatchCall::*const happened)(bool);
  };

  void Began(bool ok);
  void Wrote(bool ok);
  void Ended(bool ok);
  void Finished(bool ok);
  void Write() REQUIRES(mutex_);
  void Finish(const grpc::Status& status) REQUIRES(mutex_);
  void Release(bool* seen);

  ControlCalls& calls_;
  ControlCalls::Lane& lane_;
  grpc::ServerContext context_;
  control::v1::ListRequest request_;
  grpc::ServerAsyncWriter<control::v1::VgpuList> writer_;
  Step began_{*this, &WatchCall::Began}, wrote_{*this, &WatchCall::Wrote}, ended_{*this, &WatchCall::Ended},
      finished_{*this, &WatchCall::Finished};
  std::string holder_;

  Mutex mutex_;
  std::shared_ptr<WatchCall> self_ GUARDED_BY(mutex_);              // until gRPC has no part of it any more
  std::optional<std::vector<ShownVgpu>> state_ GUARDED_BY(mutex_);  // the last one
  GpuList gpus_ GUARDED_BY(mutex_);
  bool is_answered_ GUARDED_BY(mutex_) = false;  // else nothing is written yet
  bool writes_ GUARDED_BY(mutex_) = false;
  bool has_news_ GUARDED_BY(mutex_) = false;  // since that write
  bool is_over_ GUARDED_BY(mutex_) = false;
  bool finishes_ GUARDED_BY(mutex_) = false;
  bool saw_end_ GUARDED_BY(mutex_) = false, saw_finish_ GUARDED_BY(mutex_) = false;
};

}  // namespace tessera
