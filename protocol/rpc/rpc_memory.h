// Bounds what the clients of a gRPC server make it keep. gRPC of Debian 12 does not: whoever never confirms its settings may have
// calls without end, and each takes some 10 KiB until its answer has been read (2.3 GB in ten seconds were seen).
//
//   RpcMemory memory(connections, "the control API");
//   memory.Run();    // in a thread of its own
//
// Beyond Bounds::bytes_max more than the process had at Run(), connections are ended: those whose answers nobody reads, or, where
// there are none, all. Clients may connect again. What others of the process allocate meanwhile counts too, but for what
// Bounds::others tells of. What stays while nobody is connected is not theirs: the bound is then beyond that (memory_bound.h),
// with a line in the log.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "protocol/rpc/rpc_connections.h"

namespace tessera {

class RpcMemory {
 public:
  struct Bounds {
    size_t bytes_max = size_t{32} << 20;  // twice what gRPC has for its buffers
    // Bytes that the process keeps by now for reasons other than calls, at most. In the thread of Run(); empty: none.
    std::function<size_t()> others = {};
  };
  static constexpr int kLongPauseMs = 1000;  // between two looks while nobody is connected,
  static constexpr int kPauseMs = 100;       // while somebody is,
  static constexpr int kShortPauseMs = 10;   // and once somebody connects, or where much more was there at the last one
  static constexpr size_t kMuchBytes = size_t{2} << 20;

  // `what`: for the log.
  RpcMemory(RpcConnections& connections, std::string what) : RpcMemory(connections, std::move(what), Bounds()) {}
  RpcMemory(RpcConnections& connections, std::string what, Bounds bounds)
      : connections_(connections), what_(std::move(what)), bounds_(std::move(bounds)) {}
  [[noreturn]] void Run();

 private:
  RpcConnections& connections_;
  const std::string what_;
  const Bounds bounds_;
};

}  // namespace tessera
