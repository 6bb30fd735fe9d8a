#include "server/broker/control/control_server.h"

#include <errno.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "protocol/base/log.h"
#include "protocol/base/mutex.h"
#include "protocol/channel/server_user.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/link/tls/tls_certificate.h"
#include "protocol/rpc/rpc_connections.h"
#include "protocol/rpc/rpc_memory.h"
#include "protocol/rpc/tls_front.h"
#include "protocol/wire/holder.h"
#include "server/broker/control/control_calls.h"
#include "server/broker/control/control_keys.h"
#include "server/broker/control/usage_call.h"
#include "server/broker/control/watch_call.h"

namespace tessera {
namespace {

constexpr int kShortageMs = 100;

class Front {
 public:
  Front(UniqueFd listener, UniqueFd names, CallQueue& queue, std::vector<std::string> administrators, UsageFront* usage)
      : listener_(std::move(listener)),
        names_(std::move(names)),
        queue_(queue),
        calls_(queue, connections_, std::move(administrators), usage) {}

  // Before Run().
  Status ListenByTls(UniqueFd listener) {
    Result<std::unique_ptr<TlsFront>> tls =
        TlsFront::Make(std::move(listener), "the control API", [this](UniqueFd socket, const CertificateDescription& shown) {
          return Take(std::move(socket), NameHolder(shown.name), true);
        });
    if (!tls.ok()) return tls.status();
    tls_ = std::move(*tls);
    return Status::Ok();
  }
  bool has_tls() const { return tls_ != nullptr; }
  void RunTls() {
    BeLessUrgent();
    tls_->Run();
  }
  void Run() {
    BeLessUrgent();
    for (;;) {
      // poll() skips negative descriptors.
      pollfd ready[] = {{listener_.get(), POLLIN, 0}, {queue_.answer_fd(), POLLIN, 0}, {names_.get(), POLLIN, 0}};
      poll(ready, std::size(ready), -1);
      if (ready[1].revents != 0) {
        calls_.Deliver();  // takes the event: what comes behind that is another one
        TakeKeys();
      }
      if (ready[2].revents != 0) TakeNamed();
      if (ready[0].revents != 0) Accept();
    }
  }

 private:
  void Accept() {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      // Without descriptors it would be asked again and again.
      if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) poll(nullptr, 0, kShortageMs);
      return;
    }
    Result<PeerCredentials> peer = PeerOf(socket.get());
    if (!peer.ok()) return;
    if (peer->uid != kOverflowUser) return void(Take(std::move(socket), UserHolder(peer->uid), false));
    if (!names_.valid()) return void(Take(std::move(socket), std::string(kAnonymousHolder), false));
    // One that finds no room is turned away.
    const std::byte question{};
    const int fd = socket.get();
    const Status asked = SendMessage(names_.get(), std::span(&question, 1), std::span(&fd, 1), 0);
    if (!asked.ok()) LogDebug("the daemon was not asked who a caller is: {}", asked.message());
  }

  void TakeNamed() {
    Result<SocketMessage> caller = ReceiveMessage(names_.get(), kHolderBytesMax, 0);
    if (caller.status().code() == StatusCode::kUnavailable) names_.reset();  // the daemon has ended
    if (!caller.ok() || caller->fds.size() != 1) return;
    const std::string holder(reinterpret_cast<const char*>(caller->bytes.data()), caller->bytes.size());
    if (IsHolder(holder)) Take(std::move(caller->fds[0]), holder, false);
  }

  // Gives a connection to gRPC. False: there are too many.
  bool Take(UniqueFd socket, const std::string& holder, bool by_tls) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const Standing standing = connections_.StandingOfHolder(holder);
    std::unique_ptr<grpc::Server>& server = servers_[static_cast<size_t>(standing)];
    if (server == nullptr) server = Serve();
    return connections_.Take(*server, std::move(socket), holder, by_tls);
  }

  void TakeKeys() {
    std::optional<ControlKeys> keys = queue_.TakeKeys();
    if (!keys || tls_ == nullptr) return;
    Result<std::shared_ptr<const TlsIdentity>> identity = IdentityOf(*keys);
    ControlKeysAnswer answer{keys->message.revision, identity.status().code(), identity.status().message()};
    if (identity.ok()) {
      answer.sentence = (*identity)->own().name + ", until " + DescribeTime((*identity)->own().ends);
      tls_->Use(std::move(*identity));
    }
    queue_.AnswerKeys(std::move(answer));
  }

  static void BeLessUrgent() { setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + ControlServer::kNice); }

  std::unique_ptr<grpc::Server> Serve() REQUIRES(mutex_) {
    grpc::ServerBuilder builder;
    ControlServer::kBounds.Bound(builder, "control");
    auto* const lane = new ControlCalls::Lane(builder);  // as long as the process
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    calls_.Begin(*lane);
    WatchCall::Await(calls_, *lane);
    UsageCall::Await(calls_, *lane);
    std::thread([lane] {
      for (;;) lane->TendOne();
    }).detach();
    if (!std::exchange(is_bounded_, true)) std::thread([this] { memory_.Run(); }).detach();
    return server;
  }

  const UniqueFd listener_;
  UniqueFd names_;
  CallQueue& queue_;
  RpcConnections connections_{ControlServer::kConnections, [this](const std::string& holder) {
                                return calls_.IsAdministrator(holder) ? Standing::kTrusted : Standing::kUsual;
                              }};
  RpcMemory memory_{connections_, "the control API"};
  ControlCalls calls_;
  std::unique_ptr<TlsFront> tls_;
  Mutex mutex_;
  // By standing: what others have under way is not in the administrators' way.
  std::array<std::unique_ptr<grpc::Server>, kStandings> servers_ GUARDED_BY(mutex_);
  bool is_bounded_ GUARDED_BY(mutex_) = false;  // memory_ runs
};

}  // namespace

Status ControlServer::Start(Listeners listeners, CallQueue& queue, std::vector<std::string> administrators, UsageFront* usage) {
  Front* const front = new Front(std::move(listeners.users), std::move(listeners.names), queue, std::move(administrators),
                                 usage);  // as long as the process
  if (listeners.tls.valid()) RETURN_IF_ERROR(front->ListenByTls(std::move(listeners.tls)));
  try {
    std::thread([front] { front->Run(); }).detach();
    if (front->has_tls()) std::thread([front] { front->RunTls(); }).detach();
  } catch (const std::system_error& error) {
    return Status::FromErrno("cannot start a thread for the control API", error.code().value());
  }
  return Status::Ok();
}

}  // namespace tessera
