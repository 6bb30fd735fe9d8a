#include "protocol/rpc/rpc_connections.h"

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "protocol/base/log.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

constexpr size_t kMemoryBytesMax = size_t{16} << 20;  // for gRPC's buffers
constexpr int kMetadataBytesMax = 8 * 1024;

std::optional<ino_t> InodeOf(int fd) {
  struct stat state {};
  if (fstat(fd, &state) != 0) return std::nullopt;
  return state.st_ino;
}

}  // namespace

void RpcBounds::Bound(grpc::ServerBuilder& builder, const std::string& name) const {
  // Otherwise libprotobuf logs each malformed message on stderr, so a client could flood the log.
  google::protobuf::SetLogHandler(nullptr);
  builder.SetMaxReceiveMessageSize(message_bytes);
  builder.SetResourceQuota(grpc::ResourceQuota(name).Resize(kMemoryBytesMax));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, calls_of_connection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, idle_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, answer_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
}

bool RpcConnections::Take(grpc::Server& server, UniqueFd socket, const std::string& holder, bool by_tls,
                          CertificateDescription shown) {
  MutexLock lock(mutex_);
  const std::optional<ino_t> inode = InodeOf(socket.get());
  if (!inode) return false;
  size_t of_holder = 0, of_kind = 0;
  ForgetClosed();
  for (const auto& [fd, connection] : connections_) {
    if (connection.holder == holder) ++of_holder;
    if (connection.by_tls == by_tls) ++of_kind;
  }
  const bool is_full = holder != UserHolder(0) && of_holder >= bounds_.of_holder;
  if (of_kind >= bounds_.of_kind || is_full) {
    LogDebug("a connection of {} is closed: it has {} of {}", holder, of_holder, of_kind);
    return false;
  }
  connections_[socket.get()] = {*inode, holder, by_tls, std::move(shown)};
  ++taken_;
  took_.notify_all();
  grpc::AddInsecureChannelFromFd(&server, socket.release());
  return true;
}

void RpcConnections::ForgetClosed() {
  std::erase_if(connections_, [](const auto& each) { return InodeOf(each.first) != each.second.inode; });
}

bool RpcConnections::empty() {
  MutexLock lock(mutex_);
  ForgetClosed();
  return connections_.empty();
}

uint64_t RpcConnections::AwaitMore(uint64_t taken, int timeout_ms) {
  MutexLock lock(mutex_);
  took_.wait_for(mutex_, std::chrono::milliseconds(timeout_ms), [&]() REQUIRES(mutex_) { return taken_ > taken; });
  return taken_;
}

RpcConnections::Ended RpcConnections::EndGreedy() {
  MutexLock lock(mutex_);
  ForgetClosed();
  Ended ended;
  for (const bool unread_alone : {true, false}) {
    for (const auto& [fd, connection] : connections_) {
      int unread = 0;
      if (unread_alone && (ioctl(fd, SIOCOUTQ, &unread) != 0 || unread == 0)) continue;
      // gRPC closes the descriptor. If it has just done so, the number belongs to another of gRPC's connections at worst.
      shutdown(fd, SHUT_RDWR);
      ended.holders.insert(connection.holder);
      ++ended.count;
    }
    if (ended.count > 0) break;
  }
  return ended;
}

std::string RpcConnections::HolderOf(const std::string& peer) {
  MutexLock lock(mutex_);
  const Connection* const found = Find(peer);
  return found == nullptr ? std::string() : found->holder;
}

std::optional<CertificateDescription> RpcConnections::ShownBy(const std::string& peer) {
  MutexLock lock(mutex_);
  const Connection* const found = Find(peer);
  if (found == nullptr || found->shown.name.empty()) return std::nullopt;
  return found->shown;
}

const RpcConnections::Connection* RpcConnections::Find(const std::string& peer) {
  int fd = -1;
  constexpr std::string_view kForm = "fd:";
  if (!peer.starts_with(kForm)) return nullptr;
  const auto [end, error] = std::from_chars(peer.data() + kForm.size(), peer.data() + peer.size(), fd);
  if (error != std::errc() || end != peer.data() + peer.size()) return nullptr;
  const auto found = connections_.find(fd);
  // gRPC does not close a descriptor while one of its calls runs.
  return found == connections_.end() || InodeOf(fd) != found->second.inode ? nullptr : &found->second;
}

}  // namespace tessera
