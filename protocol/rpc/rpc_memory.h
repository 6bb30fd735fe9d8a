// Bounds the memory that clients make a gRPC server keep. The gRPC of Debian 12 has no such bound: a client that never confirms
// the server's HTTP/2 settings may have any number of calls, and each takes some 10 KiB until its answer has been read (2.3 GB in
// ten seconds were seen).
//
//   RpcMemory memory(connections, "the control API");
//   memory.Run();    // in a thread of its own
//
// When the process has Bounds::bytes_max more than at the start of Run(), connections of the greediest holder are ended, then of
// the next (RpcConnections::EndGreedy). Clients may connect again. Allocations of the rest of the process count too, except
// those that Bounds::others reports. Memory that stays while nobody is connected does not belong to clients: it raises the bound
// (memory_bound.h), and the log says so.
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
    size_t bytes_max = size_t{32} << 20;  // twice the quota of gRPC's buffers (rpc_connections.cc)
    // The most bytes that the process may keep now for reasons other than calls. Called in the thread of Run(). Empty: none.
    std::function<size_t()> others = {};
  };
  static constexpr int kLongPauseMs = 1000;  // between two looks at the memory while nobody is connected,
  static constexpr int kPauseMs = 100;       // while somebody is,
  static constexpr int kShortPauseMs = 10;   // and after a connection begins, or memory grew by kMuchBytes or is too much
  static constexpr size_t kMuchBytes = size_t{2} << 20;

  // `what`: the service's name for the log. `connections` has to outlive this.
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
