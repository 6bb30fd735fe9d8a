#include "netaware/admin/change_call.h"

#include <fmt/core.h>

#include <cstdio>
#include <thread>
#include <utility>

#include "protocol/base/printable.h"
#include "protocol/rpc/request_id.h"

namespace tessera {

ChangeCall::ChangeCall(const std::string& url, const VgpuOptions& options)
    : url_(url), options_(options), request_id_(options.request_id.value_or("").empty() ? NewRequestId() : *options.request_id) {}

grpc::Status ChangeCall::Do(ControlConnection& connection, const Ask& ask) {
  using Clock = std::chrono::steady_clock;
  const auto answer_of = [&](ControlConnection& asked) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kAnswerWait);
    return ask(*asked.stub, &context, request_id_);
  };
  grpc::Status status = answer_of(connection);
  const Clock::time_point lost = Clock::now();
  for (bool said = false; status.error_code() == grpc::StatusCode::UNAVAILABLE && connection.rpc.failure().ok();) {
    const auto silent = Clock::now() - lost;
    if (silent >= kAgainFor) break;
    if (silent >= kSilentFor && !std::exchange(said, true)) {
      std::fprintf(stderr, "%s",
                   fmt::format("tessera: the control API does not answer ({}): asked again for {} s\n",
                               Printable(status.error_message()), kAgainFor.count())
                       .c_str());
    }
    std::this_thread::sleep_for(kPause);
    Result<ControlConnection> again = ConnectControl(url_, options_);
    if (!again.ok()) {
      status = grpc::Status(grpc::StatusCode::UNAVAILABLE, again.status().message());
      continue;
    }
    connection = std::move(*again);
    status = answer_of(connection);
  }
  return status;
}

}  // namespace tessera
