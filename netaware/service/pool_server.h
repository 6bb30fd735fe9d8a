// What a node says when it joins, and how a server is kept, so that a placer that starts knows whose GPUs its grants are of.
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

// What a server's ledger has of a grant.
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
  std::string host{};  // on which its unix: addresses are
  NodeState state{};
  std::string holder{};   // who says so
  std::string release{};  // of the node
};

// An administrator's word that nothing new is placed at a server.
struct ServerCordon {
  static constexpr size_t kReasonBytesMax = 160;

  std::string reason{};                 // printable, or empty
  std::string by{};                     // who said so
  bool drains = false;                  // what is there is to end
  std::optional<int64_t> ends_ms = {};  // of a drain: when what is left is revoked, by the placer's clock; nothing: never

  friend bool operator==(const ServerCordon&, const ServerCordon&) = default;
};

inline constexpr std::string_view kServerKeys = "servers/";

// What is kept of a server, without its state.
struct KeptServer {
  PoolServer is{};
  std::string host{};  // on which its unix: addresses are
  std::optional<ServerCordon> cordon{};
};

std::string StoredServer(const PoolServer& server, const std::string& host, const ServerCordon* cordon = nullptr);
// kProtocolViolation: that is none.
Result<KeptServer> ReadServer(std::string_view value);

}  // namespace tessera
