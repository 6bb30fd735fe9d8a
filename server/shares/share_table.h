// The shares of a server, by token. How many of them and of their descriptors the holder of a session may have, all its sessions
// together, FairBound decides (server/holders). Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "protocol/base/status.h"
#include "server/holders/fair_bound.h"
#include "server/shares/share.h"

namespace tessera {

class ShareTable {
 public:
  // Shares of one session at once; each but an event's holds a descriptor.
  static constexpr size_t kSessionSharesMax = 16384;
  // Of all sessions.
  static constexpr size_t kSharesMax = 16 * kSessionSharesMax;

  // `descriptors`: what all shares may hold. `reserve`: how many shares, and descriptors, are kept for holders that come later;
  // of either no more than two thirds.
  explicit ShareTable(size_t descriptors = kSharesMax, size_t reserve = 0);
  // The same from now on; shares that are there stay.
  void SetDescriptors(size_t descriptors, size_t reserve) { descriptors_.SetLimits(LimitsOf(descriptors, reserve)); }

  // Whose session it is, before its first share; a session of which nobody has said so is its own holder.
  void Enter(uint64_t session, const std::string& holder) { holders_[session] = holder; }
  // Enters a share of `session`. kInvalidArgument for a token that is taken or a share without the descriptor its kind
  // needs, kResourceExhausted beyond a bound, with a sentence for the program.
  Status Add(uint64_t session, const ShareToken& token, const ShareFacts& facts, UniqueFd fd);
  // Ends a share of `session`; nothing for one that is not its own.
  void Remove(uint64_t session, const ShareToken& token);
  // Ends all shares of `session`.
  void RemoveSession(uint64_t session);

  struct Entry {
    uint64_t session = 0;
    ShareFacts facts;
    UniqueFd fd;
    HeldPart object, descriptor;
  };
  // Null when there is none.
  const Entry* Find(const ShareToken& token) const;
  size_t size() const { return shares_.size(); }
  const FairBound& objects() const { return objects_; }
  const FairBound& descriptors() const { return descriptors_; }

 private:
  static FairBound::Limits LimitsOf(size_t total, size_t reserve);

  FairBound objects_;
  FairBound descriptors_;
  std::map<ShareToken, Entry> shares_;
  std::map<uint64_t, size_t> counts_;        // by session
  std::map<uint64_t, std::string> holders_;  // likewise
};

}  // namespace tessera
