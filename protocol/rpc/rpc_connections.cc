#include "protocol/rpc/rpc_connections.h"

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/wire/holder.h"

namespace tessera {
namespace {

constexpr int kMetadataBytesMax = 8 * 1024;
constexpr int kGraceMs = 1000;    // for the calls of a connection whose life is over
constexpr size_t kEndedMax = 16;  // connections of one holder that gRPC has not closed yet
// What is thought to be kept for each, at least.
constexpr uint64_t kConnectionBytes = 1024, kCallBytes = 10 * 1024;
constexpr uint64_t kNsOfS = 1'000'000'000;

// Halves a count once for each second since it was last done.
void Age(uint64_t& count, uint64_t& done_s, uint64_t now_ns) {
  const uint64_t now_s = now_ns / kNsOfS;
  if (now_s <= done_s) return;
  count = now_s - done_s < 64 ? count >> (now_s - done_s) : 0;
  done_s = now_s;
}

uint64_t UnreadOf(int fd) {
  int unread = 0;
  return ioctl(fd, SIOCOUTQ, &unread) == 0 ? static_cast<uint64_t>(unread) : 0;
}

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
  builder.SetResourceQuota(grpc::ResourceQuota(name).Resize(buffer_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, calls_of_connection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, idle_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, answer_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  if (life_ms == 0) return;
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, life_ms);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, kGraceMs);
}

RpcConnections::RpcConnections(const Bounds& bounds, StandingOf standing_of)
    : standing_of_(std::move(standing_of)),
      shares_{HolderShares(bounds.nobody), HolderShares(bounds.nobody),  HolderShares(bounds.usual),
              HolderShares(bounds.usual),  HolderShares(bounds.trusted), HolderShares(bounds.trusted)} {}

bool RpcConnections::Take(grpc::Server& server, UniqueFd socket, const std::string& holder, bool by_tls,
                          CertificateDescription shown) {
  const Standing standing = StandingOfHolder(holder);
  MutexLock lock(mutex_);
  const std::optional<ino_t> inode = InodeOf(socket.get());
  if (!inode) return false;
  ForgetClosed();
  size_t ended = 0;
  for (const auto& [fd, connection] : connections_) {
    if (connection.is_ended && connection.holder == holder) ++ended;
  }
  if (ended >= kEndedMax) {
    LogDebug("a connection of {} is closed: {} of his end", holder, ended);
    return false;
  }
  const uint64_t number = taken_ + 1;
  if (const std::optional<HolderShares::Id> goes = SharesOf(standing, by_tls).Come(number, holder)) {
    LogDebug("a connection is ended for one of {}", holder);
    if (*goes == number) return false;
    for (auto& [fd, connection] : connections_) {
      if (connection.number == *goes) End(fd, connection);
    }
  }
  connections_[socket.get()] = {
      .inode = *inode, .holder = holder, .standing = standing, .by_tls = by_tls, .shown = std::move(shown), .number = number};
  taken_ = number;
  took_.notify_all();
  grpc::AddInsecureChannelFromFd(&server, socket.release());
  return true;
}

void RpcConnections::End(int fd, Connection& connection) {
  SharesOf(connection.standing, connection.by_tls).Leave(connection.number);
  connection.is_ended = true;
  // gRPC closes the descriptor. If it has just done so, the number belongs to another of gRPC's connections at worst.
  shutdown(fd, SHUT_RDWR);
}

void RpcConnections::ForgetClosed() {
  std::erase_if(connections_, [&](const auto& each) REQUIRES(mutex_) {
    const Connection& connection = each.second;
    if (InodeOf(each.first) == connection.inode) return false;
    SharesOf(connection.standing, connection.by_tls).Leave(connection.number);
    return true;
  });
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

RpcConnections::Ended RpcConnections::EndGreedy(uint64_t now_ns) {
  MutexLock lock(mutex_);
  ForgetClosed();
  std::map<std::string, uint64_t> taken;  // by holder
  for (auto& [fd, connection] : connections_) {
    if (connection.is_ended) continue;
    Age(connection.calls, connection.calls_s, now_ns);
    const uint64_t bytes = kConnectionBytes + UnreadOf(fd) + connection.calls * kCallBytes;
    taken[connection.holder] += connection.standing == Standing::kTrusted ? bytes / 4 : bytes;
  }
  const bool pauses = now_ns < greedy_ns_ + kGreedyPauseNs;
  const auto most =
      pauses ? taken.find(greedy_)
             : std::max_element(taken.begin(), taken.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == taken.end()) return {};
  Ended ended{.holder = most->first};
  for (const bool unread_alone : {true, false}) {
    for (auto& [fd, connection] : connections_) {
      if (connection.is_ended || connection.holder != ended.holder || (unread_alone && UnreadOf(fd) == 0)) continue;
      End(fd, connection);
      ++ended.count;
    }
    if (ended.count > 0) break;
  }
  greedy_ = ended.holder;
  greedy_ns_ = now_ns;
  return ended;
}

std::string RpcConnections::HolderOf(const std::string& peer) {
  MutexLock lock(mutex_);
  Connection* const found = Find(peer);
  if (found == nullptr) return {};
  Age(found->calls, found->calls_s, MonotonicNs());
  ++found->calls;
  return found->holder;
}

std::optional<CertificateDescription> RpcConnections::ShownBy(const std::string& peer) {
  MutexLock lock(mutex_);
  const Connection* const found = Find(peer);
  if (found == nullptr || found->shown.name.empty()) return std::nullopt;
  return found->shown;
}

RpcConnections::Connection* RpcConnections::Find(const std::string& peer) {
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
