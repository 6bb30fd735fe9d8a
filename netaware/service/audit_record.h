// A record of an action at a placer, or of its refusal, as it is stored and shown. Plain values; pure; any thread.
//
//   core.Note({.actor = "name:boss", .action = "revoke", .object = GrantText(id), .holder = "name:alice", .text = why}, now_ms);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "netaware/store/store.h"
#include "protocol/base/status.h"

namespace tessera {

struct AuditRecord {
  static constexpr std::string_view kPlacer = "placer";  // the actor when no holder acts
  static constexpr std::string_view kDone = "done";
  static constexpr std::string_view kRefused = "refused";

  uint64_t number = 0;  // given by the store; 0 in a record to add
  int64_t time_ms = 0;  // since 1970, by the placer's clock
  std::string actor{};  // "uid:N", "name:X", or kPlacer
  // ask, grant, release, revoke, join, leave, cordon, uncordon, drain, remove, policy, sign, start, or the call that was
  // refused
  std::string action{};
  std::string object{};  // a grant's id, a server's, a file; empty: none
  std::string outcome{kDone};
  std::string holder{};                // the holder of the grant; empty: it is about no grant
  std::vector<std::string> servers{};  // on which that grant has GPUs
  std::string text{};                  // the wish, the GPUs, or the reason
  // In a record to add: the owner in whose part of the store it counts; empty: the actor, or, if the placer acts, the holder.
  std::string owner{};

  // True: it is about a server, and everybody in the pool may see it.
  bool IsOfServer() const;
  // True: `name` is its object, its holder, or one of its servers.
  bool IsOf(std::string_view name) const;

  friend bool operator==(const AuditRecord&, const AuditRecord&) = default;
};

// The stored form. All text is made printable, and cut so that it fits.
StoreRecord StoredAudit(const AuditRecord& record);
// kProtocolViolation: the record is damaged.
Result<AuditRecord> ReadAudit(const StoreRecord& record);

}  // namespace tessera
