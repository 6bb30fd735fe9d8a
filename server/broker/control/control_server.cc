#include "server/broker/control/control_server.h"

#include <errno.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"
#include "server/broker/control/control_calls.h"
#include "server/broker/control/usage_call.h"
#include "server/broker/control/watch_call.h"

namespace tessera {
namespace {

constexpr size_t kMemoryBytesMax = size_t{16} << 20;  // of gRPC's buffers
constexpr int kMetadataBytesMax = 8 * 1024;
constexpr int kShortageMs = 100;

// One that gRPC has: it closes it.
struct Connection {
  int fd;
  ino_t inode;
  uid_t user;

  bool IsOpen() const {
    struct stat now {};
    return fstat(fd, &now) == 0 && now.st_ino == inode;
  }
};

class Front {
 public:
  Front(UniqueFd listener, CallQueue& queue, std::vector<std::string> administrators, UsageFront* usage)
      : listener_(std::move(listener)), queue_(queue), calls_(queue, std::move(administrators), usage) {}

  void Run() {
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + ControlServer::kNice);
    pollfd ready[] = {{listener_.get(), POLLIN, 0}, {queue_.answer_fd(), POLLIN, 0}};
    for (;;) {
      poll(ready, std::size(ready), -1);
      if (ready[1].revents != 0) calls_.Deliver();
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
    struct stat info {};
    if (!peer.ok() || fstat(socket.get(), &info) != 0) return;
    std::erase_if(connections_, [](const Connection& each) { return !each.IsOpen(); });
    const auto of_user = std::ranges::count(connections_, peer->uid, &Connection::user);
    const bool is_full = peer->uid != 0 && static_cast<size_t>(of_user) >= ControlServer::kConnectionsOfUserMax;
    if (connections_.size() >= ControlServer::kConnectionsMax || is_full) {
      LogDebug("a connection of user {} to the control API is closed: it has {} of {}", peer->uid, of_user, connections_.size());
      return;
    }
    if (server_ == nullptr) Serve();
    connections_.push_back({socket.get(), info.st_ino, peer->uid});
    grpc::AddInsecureChannelFromFd(server_.get(), socket.release());
  }

  void Serve() {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(ControlServer::kMessageBytesMax);
    builder.SetResourceQuota(grpc::ResourceQuota("control").Resize(kMemoryBytesMax));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, ControlServer::kCallsOfConnectionMax);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, ControlServer::kIdleMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, ControlServer::kKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ControlServer::kAnswerMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    calls_.Register(builder);
    server_ = builder.BuildAndStart();
    calls_.Begin();
    WatchCall::Await(calls_);
    UsageCall::Await(calls_);
    std::thread([this] {
      for (;;) calls_.TendOne();
    }).detach();
  }

  const UniqueFd listener_;
  CallQueue& queue_;
  ControlCalls calls_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<Connection> connections_;
};

}  // namespace

Status ControlServer::Start(UniqueFd listener, CallQueue& queue, std::vector<std::string> administrators, UsageFront* usage) {
  Front* const front = new Front(std::move(listener), queue, std::move(administrators), usage);  // as long as the process
  try {
    std::thread([front] { front->Run(); }).detach();
  } catch (const std::system_error& error) {
    return Status::FromErrno("cannot start a thread for the control API", error.code().value());
  }
  return Status::Ok();
}

}  // namespace tessera
