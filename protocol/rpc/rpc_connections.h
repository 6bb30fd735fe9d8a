// The connections of a gRPC server whose other sides are known: by the kernel, or by a certificate. gRPC itself knows neither.
//
//   RpcConnections connections;
//   connections.Take(server, std::move(socket), "name:alice", true);    // who has connected
//   const std::string holder = connections.HolderOf(context.peer());    // in a call
//
// Any thread.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "protocol/base/mutex.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/tls/tls_certificate.h"

namespace tessera {

// What a server of ours bounds: bytes of messages, headers and buffers, calls of a connection, silence.
struct RpcBounds {
  int message_bytes = 64 * 1024;
  int calls_of_connection = 16;
  int idle_ms = 60'000;       // a connection without a call is closed then
  int keepalive_ms = 20'000;  // and whoever does not answer a ping,
  int answer_ms = 10'000;     // for so long

  // `name`: of the memory that its buffers have together. Of this process's libprotobuf nothing is logged from then on.
  void Bound(grpc::ServerBuilder& builder, const std::string& name) const;
};

class RpcConnections {
 public:
  struct Bounds {
    size_t of_kind = 64;    // from this host, and as many by TLS
    size_t of_holder = 16;  // but root's
  };
  RpcConnections() = default;
  explicit RpcConnections(const Bounds& bounds) : bounds_(bounds) {}

  // Gives a connection to gRPC, which closes it. False: there are too many, and it is closed.
  // `shown`: the certificate that has proved the holder, where somebody asks for it (ShownBy()).
  bool Take(grpc::Server& server, UniqueFd socket, const std::string& holder, bool by_tls, CertificateDescription shown = {})
      EXCLUDES(mutex_);
  // Ends those whose answers nobody reads, or, where there are none, all of them. How many these are, and whose.
  struct Ended {
    size_t count = 0;
    std::set<std::string> holders;
  };
  Ended EndGreedy() EXCLUDES(mutex_);
  bool empty() EXCLUDES(mutex_);
  // How many have been taken: once these are more than `taken`, after `timeout_ms` at the latest.
  uint64_t AwaitMore(uint64_t taken, int timeout_ms) EXCLUDES(mutex_);
  // Whose call that is; `peer` is its context's peer(), as "fd:N". Empty: it cannot be told.
  std::string HolderOf(const std::string& peer) EXCLUDES(mutex_);
  // By which certificate. Nothing: by none.
  std::optional<CertificateDescription> ShownBy(const std::string& peer) EXCLUDES(mutex_);

 private:
  struct Connection {
    ino_t inode;
    std::string holder;
    bool by_tls;
    CertificateDescription shown;
  };

  void ForgetClosed() REQUIRES(mutex_);
  // nullptr: it cannot be told.
  const Connection* Find(const std::string& peer) REQUIRES(mutex_);

  const Bounds bounds_{};
  Mutex mutex_;
  ConditionVariable took_;
  uint64_t taken_ GUARDED_BY(mutex_) = 0;
  std::map<int, Connection> connections_ GUARDED_BY(mutex_);  // by descriptors, which others may have by now: their inodes tell
};

}  // namespace tessera
