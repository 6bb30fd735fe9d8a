// The shares of a server, by token. Used by one thread.
#pragma once

#include <cstdint>
#include <map>

#include "protocol/base/status.h"
#include "server/shares/share.h"

namespace tessera {

class ShareTable {
 public:
  // Shares of one session at once; each holds a descriptor.
  static constexpr size_t kSessionSharesMax = 16384;

  // Enters a share of `session`. kInvalidArgument for a token that is taken or a share without the descriptor its kind
  // needs, kResourceExhausted beyond the bound.
  Status Add(uint64_t session, const ShareToken& token, const ShareFacts& facts, UniqueFd fd);
  // Ends a share of `session`; nothing for one that is not its own.
  void Remove(uint64_t session, const ShareToken& token);
  // Ends all shares of `session`.
  void RemoveSession(uint64_t session);

  struct Entry {
    uint64_t session = 0;
    ShareFacts facts;
    UniqueFd fd;
  };
  // Null when there is none.
  const Entry* Find(const ShareToken& token) const;
  size_t size() const { return shares_.size(); }

 private:
  std::map<ShareToken, Entry> shares_;
  std::map<uint64_t, size_t> counts_;  // by session
};

}  // namespace tessera
