// A change at the control API that is asked for again when whoever was to do it has ended meanwhile, as a broker that is started
// anew. It has the same request id each time, so it is done once, and the answer is that of the first time.
//
//   ChangeCall call(url, options);
//   const grpc::Status status = call.Do(connection, [&](VgpuService::Stub& stub, grpc::ClientContext* context,
//                                                       const std::string& request_id) { return stub.Create(...); });
//
// One thread; it waits kAnswerWait for each answer, and asks again for kAgainFor. After a second it says on stderr that it does.
#pragma once

#include <grpcpp/client_context.h>

#include <chrono>
#include <functional>
#include <string>

#include "netaware/admin/control_client.h"

namespace tessera {

class ChangeCall {
 public:
  static constexpr auto kAnswerWait = std::chrono::seconds(30);
  static constexpr auto kAgainFor = std::chrono::seconds(10);
  static constexpr auto kSilentFor = std::chrono::seconds(1);
  static constexpr auto kPause = std::chrono::milliseconds(100);

  using Ask = std::function<grpc::Status(control::v1::VgpuService::Stub& stub, grpc::ClientContext* context,
                                         const std::string& request_id)>;

  // `options`: its --request-id is this one's, where there is one. Both outlive it.
  ChangeCall(const std::string& url, const VgpuOptions& options);

  // The last answer. UNAVAILABLE: there was none for all that time. `connection`, where it asks first, becomes another one each
  // time that it has to connect again.
  grpc::Status Do(ControlConnection& connection, const Ask& ask);

 private:
  const std::string& url_;
  const VgpuOptions& options_;
  const std::string request_id_;
};

}  // namespace tessera
