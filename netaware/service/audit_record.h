// What somebody did at a placer, or was refused, as it is remembered and shown. Plain values; pure; any thread.
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
  static constexpr std::string_view kPlacer = "placer";  // who acts when nobody with a name does
  static constexpr std::string_view kDone = "done";
  static constexpr std::string_view kRefused = "refused";

  uint64_t number = 0;  // the store's; of one that is to be noted: 0
  int64_t time_ms = 0;  // since 1970, by the placer's clock
  std::string actor{};  // "uid:N", "name:X", or kPlacer
  // ask, grant, release, revoke, join, leave, cordon, uncordon, drain, remove, policy, sign, start, or what was refused
  std::string action{};
  std::string object{};  // a grant's id, a server's, a file; empty: none
  std::string outcome{kDone};
  std::string holder{};                // whose grant it is; empty: it is of none
  std::vector<std::string> servers{};  // where that grant has GPUs
  std::string text{};                  // what was asked, given or said
  // Whose part of what is kept it takes, of one that is to be noted; empty: the actor's, or, where the placer acts, the holder's.
  std::string owner{};

  // It tells of a server, and everybody in the pool may see it.
  bool IsOfServer() const;
  // `name` is its object, its holder, or one of its servers.
  bool IsOf(std::string_view name) const;

  friend bool operator==(const AuditRecord&, const AuditRecord&) = default;
};

// The form in which it is kept. Whatever others have written is made printable, and cut so that it fits.
StoreRecord StoredAudit(const AuditRecord& record);
// kProtocolViolation: that is none.
Result<AuditRecord> ReadAudit(const StoreRecord& record);

}  // namespace tessera
