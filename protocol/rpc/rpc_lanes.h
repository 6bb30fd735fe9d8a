// The servers of gRPC behind one front. Buffers are bounded for a server (RpcBounds::buffer_bytes), and beyond that gRPC ends
// calls of whomever it likes. So holders have servers of their own: what one has under way is in no other's way.
//
//   RpcLanes lanes([&](Standing standing) { return Build(standing); });
//   lanes.Of("name:alice", Standing::kUsual)
//
// Servers are made when the first connection needs them, and live as long as the process. Any thread.
#pragma once

#include <grpcpp/server.h>

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/rpc/standing.h"

namespace tessera {

class RpcLanes {
 public:
  // Of each standing. Holders beyond so many share them, in turn; all nobodies have one together.
  static constexpr size_t kLanesMax = 32;
  using Build = std::function<std::unique_ptr<grpc::Server>(Standing standing)>;

  explicit RpcLanes(Build build) : build_(std::move(build)) {}

  grpc::Server& Of(const std::string& holder, Standing standing) EXCLUDES(mutex_);

 private:
  struct Lanes {
    std::vector<std::unique_ptr<grpc::Server>> servers;
    std::map<std::string, size_t> of;  // holders, and which of them is theirs
  };

  const Build build_;
  Mutex mutex_;
  std::array<Lanes, kStandings> lanes_ GUARDED_BY(mutex_);
};

}  // namespace tessera
