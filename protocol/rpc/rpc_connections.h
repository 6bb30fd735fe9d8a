// The connections of a gRPC server, each with its holder: a user whom the kernel names, or the name in a certificate. gRPC
// itself knows neither.
//
//   RpcConnections connections;
//   connections.Take(server, std::move(socket), "name:alice", true);    // a new connection
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

// Limits of a gRPC server: bytes of messages, headers and buffers, calls of one connection, idle time.
struct RpcBounds {
  int message_bytes = 64 * 1024;
  int calls_of_connection = 16;  // at the same time
  int idle_ms = 60'000;          // a connection without a call is closed after this time
  int keepalive_ms = 20'000;     // a connection gets a ping after this time,
  int answer_ms = 10'000;        // and is closed if the answer takes longer than this

  // Sets these limits. `name` names the shared quota of the server's buffers. Turns off the log of libprotobuf in this process.
  void Bound(grpc::ServerBuilder& builder, const std::string& name) const;
};

// Knows the holder of each connection of one server, and limits their number.
class RpcConnections {
 public:
  struct Bounds {
    size_t of_kind = 64;    // connections from this host, and as many by TLS
    size_t of_holder = 16;  // of one holder; root has no such limit
  };
  RpcConnections() = default;
  explicit RpcConnections(const Bounds& bounds) : bounds_(bounds) {}

  // Hands a connection of `holder` to gRPC, which closes it at its end. False: there are too many, and this one is closed.
  // `shown`: the certificate that proved the holder, for ShownBy().
  bool Take(grpc::Server& server, UniqueFd socket, const std::string& holder, bool by_tls, CertificateDescription shown = {})
      EXCLUDES(mutex_);
  // Ends the connections whose clients do not read their answers; if there are none, ends all. Returns how many it ended, and
  // their holders.
  struct Ended {
    size_t count = 0;
    std::set<std::string> holders;
  };
  Ended EndGreedy() EXCLUDES(mutex_);
  // True: no connection is open.
  bool empty() EXCLUDES(mutex_);
  // Waits until more than `taken` connections were taken in all, for `timeout_ms` at most. Returns how many were.
  uint64_t AwaitMore(uint64_t taken, int timeout_ms) EXCLUDES(mutex_);
  // The holder of a call. `peer` is peer() of the call's context, such as "fd:N". Empty: it cannot be told.
  std::string HolderOf(const std::string& peer) EXCLUDES(mutex_);
  // The certificate by which the caller proved its name. nullopt: there is none.
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
  // By descriptor. Its number may belong to another file by now: the inode tells.
  std::map<int, Connection> connections_ GUARDED_BY(mutex_);
};

}  // namespace tessera
