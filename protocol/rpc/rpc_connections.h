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

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "protocol/base/mutex.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/tls/tls_certificate.h"
#include "protocol/rpc/holder_shares.h"
#include "protocol/rpc/standing.h"

namespace tessera {

// Limits of a gRPC server: bytes of messages, headers and buffers, calls of one connection, idle time, life.
struct RpcBounds {
  int message_bytes = 64 * 1024;
  int calls_of_connection = 16;  // at the same time
  int idle_ms = 60'000;          // a connection without a call is closed after this time
  int keepalive_ms = 20'000;     // a connection gets a ping after this time,
  int answer_ms = 10'000;        // and is closed if the answer takes longer than this
  int life_ms = 0;               // a connection is closed after this time, whatever its calls do, and they with it; 0: never
  size_t buffer_bytes = size_t{16} << 20;  // of all connections of the server

  // Sets these limits. `name` names the quota of the server's buffers. Turns off the log of libprotobuf in this process.
  void Bound(grpc::ServerBuilder& builder, const std::string& name) const;
};

// Knows the holder of each connection of one server, and limits their number.
class RpcConnections {
 public:
  // For each standing: connections from this host, and as many by TLS.
  struct Bounds {
    HolderShares::Bounds nobody{.of_holder = 4, .in_all = 16};
    HolderShares::Bounds usual{.of_holder = 16, .in_all = 64};
    HolderShares::Bounds trusted{.of_holder = 64, .in_all = 64};
  };
  RpcConnections() : RpcConnections(Bounds()) {}
  // Without `standing_of` everybody's is kUsual.
  explicit RpcConnections(const Bounds& bounds, StandingOf standing_of = {});

  // Hands a connection of `holder` to gRPC, which closes it at its end. Beyond the bounds another one is ended for it
  // (holder_shares.h). False: this one is closed, since the holder has too many that are ended and not closed yet, or since each
  // other holder has as few as he. `shown`: the certificate that proved the holder, for ShownBy().
  bool Take(grpc::Server& server, UniqueFd socket, const std::string& holder, bool by_tls, CertificateDescription shown = {})
      EXCLUDES(mutex_);
  // Ends connections of the one holder who, as far as can be told, takes most memory: those whose clients do not read their
  // answers, or all of his if there are none. What he takes is measured by bytes that he has not read, calls that he has lately
  // made, and connections; that of trusted holders counts a quarter. Returns how many it ended; 0: it waits, for kGreedyPauseNs,
  // for what became free when another holder's were ended.
  static constexpr uint64_t kGreedyPauseNs = 250'000'000;
  struct Ended {
    size_t count = 0;
    std::string holder;
  };
  Ended EndGreedy(uint64_t now_ns) EXCLUDES(mutex_);
  // Standing() of a holder, by what the constructor got.
  Standing StandingOfHolder(const std::string& holder) const { return standing_of_ ? standing_of_(holder) : Standing::kUsual; }
  // True: no connection is open.
  bool empty() EXCLUDES(mutex_);
  // Waits until more than `taken` connections were taken in all, for `timeout_ms` at most. Returns how many were.
  uint64_t AwaitMore(uint64_t taken, int timeout_ms) EXCLUDES(mutex_);
  // The holder of a call that begins. `peer` is peer() of the call's context, such as "fd:N". Empty: it cannot be told.
  std::string HolderOf(const std::string& peer) EXCLUDES(mutex_);
  // The certificate by which the caller proved its name. nullopt: there is none.
  std::optional<CertificateDescription> ShownBy(const std::string& peer) EXCLUDES(mutex_);

 private:
  struct Connection {
    ino_t inode;
    std::string holder;
    Standing standing;
    bool by_tls;
    CertificateDescription shown;
    uint64_t number;  // by which it has its share
    bool is_ended = false;
    uint64_t calls = 0, calls_s = 0;  // that it has lately made: a second halves them; when that was last done
  };

  void ForgetClosed() REQUIRES(mutex_);
  void End(int fd, Connection& connection) REQUIRES(mutex_);
  HolderShares& SharesOf(Standing standing, bool by_tls) REQUIRES(mutex_) {
    return shares_[static_cast<size_t>(standing) * 2 + (by_tls ? 1 : 0)];
  }
  // nullptr: it cannot be told.
  Connection* Find(const std::string& peer) REQUIRES(mutex_);

  const StandingOf standing_of_;
  Mutex mutex_;
  std::array<HolderShares, kStandings * 2> shares_ GUARDED_BY(mutex_);
  std::string greedy_ GUARDED_BY(mutex_);      // whose connections EndGreedy() ended last
  uint64_t greedy_ns_ GUARDED_BY(mutex_) = 0;  // and when
  ConditionVariable took_;
  uint64_t taken_ GUARDED_BY(mutex_) = 0;
  // By descriptor. Its number may belong to another file by now: the inode tells.
  std::map<int, Connection> connections_ GUARDED_BY(mutex_);
};

}  // namespace tessera
