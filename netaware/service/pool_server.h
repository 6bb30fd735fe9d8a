// A node's registration, and the stored form of a server. A placer that starts reads from it the servers of its grants.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netaware/inventory/inventory.h"
#include "protocol/base/status.h"
#include "protocol/ticket/ticket.h"

namespace tessera {

// A grant in a server's ledger.
struct NodeGrantState {
  Ticket::Grant grant{};
  bool is_held = false;  // it is not confirmed yet
  uint32_t sessions = 0;
};

struct NodeState {
  std::vector<GpuAmount> others{};  // for each GPU, in the server's order
  std::vector<NodeGrantState> grants{};
};

struct JoiningNode {
  PoolServer server{};
  std::string host{};  // the host of its unix: addresses
  NodeState state{};
  std::string holder{};   // the holder that joins
  std::string release{};  // of the node
};

// An administrator's order to place nothing new at a server.
struct ServerCordon {
  static constexpr size_t kReasonBytesMax = 160;

  std::string reason{};                 // printable, or empty
  std::string by{};                     // the administrator
  bool drains = false;                  // the grants there are to end
  std::optional<int64_t> ends_ms = {};  // of a drain: when the rest is revoked, by the placer's clock; nullopt: never

  friend bool operator==(const ServerCordon&, const ServerCordon&) = default;
};

inline constexpr std::string_view kServerKeys = "servers/";

// The stored data of a server, without its state.
struct KeptServer {
  PoolServer is{};
  std::string host{};  // the host of its unix: addresses
  std::optional<ServerCordon> cordon{};
};

std::string StoredServer(const PoolServer& server, const std::string& host, const ServerCordon* cordon = nullptr);
// kProtocolViolation: the value is damaged.
Result<KeptServer> ReadServer(std::string_view value);

}  // namespace tessera
