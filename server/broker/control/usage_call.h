// A call of Usage: goes to the keeper of usage records, and not to the broker's thread.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>

#include <memory>

#include "server/broker/control/control_calls.h"
#include "server/broker/usage/usage_front.h"

namespace tessera {

class UsageCall : public GrpcEvent, public std::enable_shared_from_this<UsageCall> {
 public:
  // Waits for the next such call.
  static void Await(ControlCalls& calls, ControlCalls::Lane& lane);

  UsageCall(ControlCalls& calls, ControlCalls::Lane& lane) : calls_(calls), lane_(lane), writer_(&context_) {}
  void Happened(bool ok) override;

 private:
  void Answer(const UsageFront::Rows& rows);
  void Finish(const grpc::Status& status) { writer_.Finish(report_, status, static_cast<GrpcEvent*>(this)); }

  ControlCalls& calls_;
  ControlCalls::Lane& lane_;
  grpc::ServerContext context_;
  control::v1::UsageRequest request_;
  control::v1::UsageReport report_;
  grpc::ServerAsyncResponseWriter<control::v1::UsageReport> writer_;
  std::shared_ptr<UsageCall> self_;
  bool began_ = false;
};

}  // namespace tessera
