// What a node says when it joins, and how a server is kept, so that a placer that starts knows whose GPUs its grants are of.
#pragma once

#include <cstdint>
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

inline constexpr std::string_view kServerKeys = "servers/";

// The form in which it is kept, without its state.
std::string StoredServer(const JoiningNode& node);
// kProtocolViolation: that is none.
Result<JoiningNode> ReadServer(std::string_view value);

}  // namespace tessera
