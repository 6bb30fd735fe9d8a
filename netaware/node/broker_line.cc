#include "netaware/node/broker_line.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "generated/spec_hash.h"
#include "netaware/node/node_messages.h"
#include "netaware/node/patience.h"
#include "netaware/node/server_devices.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/mutex.h"
#include "protocol/base/printable.h"
#include "protocol/channel/query_server.h"
#include "protocol/rpc/rpc_client.h"
#include "protocol/wire/device_snapshot.h"

namespace tessera {
namespace {

using control::v1::VgpuList;

// The status that GrantVgpus::CallDone() receives. `too_late`: the gRPC code that counts as success.
Status StatusOf(const grpc::Status& status, grpc::StatusCode too_late) {
  if (status.ok() || status.error_code() == too_late) return Status::Ok();
  StatusCode code = StatusCode::kInvalidArgument;
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN: code = StatusCode::kUnavailable; break;
    case grpc::StatusCode::RESOURCE_EXHAUSTED: code = StatusCode::kResourceExhausted; break;
    case grpc::StatusCode::PERMISSION_DENIED: code = StatusCode::kPermissionDenied; break;
    default: break;
  }
  return Status(code, Printable(status.error_message()));
}

// Receives one list after another until the stream ends.
class Watcher : public grpc::ClientReadReactor<VgpuList> {
 public:
  explicit Watcher(std::function<void(const VgpuList&)> seen) : seen_(std::move(seen)) {}

  grpc::Status Run(control::v1::VgpuService::Stub& stub) {
    stub.async()->Watch(&context_, &request_, this);
    StartRead(&list_);
    StartCall();
    MutexLock lock(mutex_);
    while (!done_) ended_.wait(mutex_);
    return *done_;
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    seen_(list_);
    list_.Clear();
    StartRead(&list_);
  }
  void OnDone(const grpc::Status& status) override {
    MutexLock lock(mutex_);
    done_ = status;
    ended_.notify_all();
  }

 private:
  const std::function<void(const VgpuList&)> seen_;
  grpc::ClientContext context_;
  const control::v1::ListRequest request_;
  VgpuList list_;
  Mutex mutex_;
  ConditionVariable ended_;
  std::optional<grpc::Status> done_ GUARDED_BY(mutex_);
};

template <typename Request>
struct OneCall {
  grpc::ClientContext context;
  Request request;
  control::v1::Vgpu answer;
};
template <typename Request>
std::shared_ptr<OneCall<Request>> MakeCall(Request request) {
  auto call = std::make_shared<OneCall<Request>>();
  call->request = std::move(request);
  call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(BrokerLine::kAnswerS));
  return call;
}

}  // namespace

void BrokerLine::Start() {
  std::thread([this] { Run(); }).detach();
}

void BrokerLine::Run() {
  Patience patience;
  for (;;) {
    bool was_there = false;
    const Status why = Follow(&was_there);
    if (was_there) patience.Reset();
    if (patience.IsNews(why.message())) LogWarning("no broker: {}; it is tried again and again", why.message());
    std::this_thread::sleep_for(std::chrono::milliseconds(patience.NextMs()));
  }
}

Result<ServerReport> BrokerLine::AskServer(const ServerQuery& query) const {
  const uint64_t deadline_ns = MonotonicNs() + kQueryTimeoutNs;
  Result<UniqueFd> server = means_.server(deadline_ns);
  return server.ok() ? QueryServer(*server, server_path_, query, deadline_ns) : server.status();
}

// The connections of each device to the others; empty for a server without NVML, which cannot report them.
std::vector<std::vector<ServerReport::Value>> BrokerLine::LinksOf(size_t devices) const {
  std::vector<std::vector<ServerReport::Value>> links(devices);
  for (uint32_t device = 0; devices > 1 && device < devices; ++device) {
    ServerQuery query;
    query.spec_hash = kSpecHash;
    query.ask = ServerQuery::Ask::kLinks;
    query.device = device;
    Result<ServerReport> report = AskServer(query);
    if (!report.ok()) break;
    if (device < report->readings.size()) links[device] = std::move(report->readings[device]);
  }
  return links;
}

// Returns when the connection has ended.
Status BrokerLine::Follow(bool* was_there) {
  Result<RpcConnection> connection = ConnectRpc(control_url_, {}, kControlPeer, kWhenNoControl, kRpcConnectNs, means_.control);
  if (!connection.ok()) return connection.status();
  ServerQuery query;
  query.spec_hash = kSpecHash;
  Result<ServerReport> report = AskServer(query);
  if (!report.ok()) return report.status();
  RETURN_IF_ERROR(CheckPeerVersion("server", report->wire_version, report->spec_hash, kSpecHash));
  Result<DeviceSnapshot> snapshot = DeviceSnapshot::Decode(report->snapshot);
  if (!snapshot.ok()) return snapshot.status();
  std::map<std::string, ServerDevice> devices = DevicesOf(*snapshot, LinksOf(snapshot->devices.size()));

  const std::shared_ptr<Stub> stub = control::v1::VgpuService::NewStub(connection->channel);
  queue_.Push([this, stub, devices = std::move(devices)] {
    stub_ = stub;
    listener_.described(devices);
  });
  std::atomic<bool> seen = false;
  Watcher watcher([&](const VgpuList& list) {
    seen = true;
    queue_.Push([this, vgpus = VgpusOf(list)] { listener_.list(vgpus); });
  });
  const grpc::Status ended = watcher.Run(*stub);
  queue_.Push([this] {
    stub_.reset();
    listener_.lost();
  });
  *was_there = seen;
  return Status(StatusCode::kUnavailable,
                "the control API at " + control_url_ + " has ended: " + Printable(ended.error_message()));
}

void BrokerLine::Call(const GrantVgpus::Call& call) {
  const std::string name = call.vgpu.name;
  const bool creates = call.kind == GrantVgpus::Call::Kind::kCreate;
  // ALREADY_EXISTS and NOT_FOUND count as success: an earlier node made the call, or the vGPU is in the requested state anyway.
  const auto done = [this, name, too_late = creates ? grpc::StatusCode::ALREADY_EXISTS : grpc::StatusCode::NOT_FOUND](
                        const grpc::Status& status) {
    queue_.Push([this, name, result = StatusOf(status, too_late)] { listener_.done(name, result); });
  };
  if (stub_ == nullptr) return done({grpc::StatusCode::UNAVAILABLE, "there is no broker"});
  // The connection lives until its last call has ended.
  if (creates) {
    const auto one = MakeCall(CreateOf(call.vgpu));
    const auto answered = [stub = stub_, one, done](const grpc::Status& status) { done(status); };
    return stub_->async()->Create(&one->context, &one->request, &one->answer, answered);
  }
  control::v1::DeleteRequest request;
  request.set_name(name);
  request.set_force(true);
  const auto one = MakeCall(std::move(request));
  const auto answered = [stub = stub_, one, done](const grpc::Status& status) { done(status); };
  stub_->async()->Delete(&one->context, &one->request, &one->answer, answered);
}

}  // namespace tessera
