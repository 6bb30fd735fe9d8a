#include "server/shares/share_table.h"

#include <algorithm>
#include <utility>

#include "protocol/base/clock.h"

namespace tessera {

ShareTable::ShareTable(size_t descriptors, size_t reserve)
    : objects_(LimitsOf(kSharesMax, reserve)), descriptors_(LimitsOf(descriptors, reserve)) {}

FairBound::Limits ShareTable::LimitsOf(size_t total, size_t reserve) {
  return {.total = total, .reserve = std::min(reserve, total / 3 * 2)};
}

Status ShareTable::Add(uint64_t session, const ShareToken& token, const ShareFacts& facts, UniqueFd fd) {
  const bool needs_fd = facts.kind != ShareKind::kEvent;
  if (facts.kind == ShareKind::kNone || fd.valid() != needs_fd) {
    return Status(StatusCode::kInvalidArgument, "a share without its object");
  }
  size_t& count = counts_[session];
  if (count >= kSessionSharesMax) {
    return Status(StatusCode::kResourceExhausted,
                  "the program shares " + std::to_string(count) + " objects, the limit: free some of them");
  }
  if (shares_.contains(token)) return Status(StatusCode::kInvalidArgument, "a share under a token that is taken");
  const auto known = holders_.find(session);
  const std::string holder = known == holders_.end() ? "session " + std::to_string(session) : known->second;
  const uint64_t now_ns = MonotonicNs();
  const uint64_t had = objects_.held(holder);
  Entry entry{session, facts, std::move(fd), {}, {}};
  const auto take = [&](FairBound& bound, HeldPart* part) {
    if (!bound.Take(holder, 1, now_ns)) return false;
    *part = HeldPart(bound, holder, 1);
    return true;
  };
  if (!take(objects_, &entry.object) || (needs_fd && !take(descriptors_, &entry.descriptor))) {
    return Status(StatusCode::kResourceExhausted, "programs of this user share " + std::to_string(had) +
                                                      " objects, as many as the server has room for beside others': free some of "
                                                      "them, or raise the limit of tesserad (ulimit -n)");
  }
  shares_.emplace(token, std::move(entry));
  ++count;
  return Status::Ok();
}

void ShareTable::Remove(uint64_t session, const ShareToken& token) {
  const auto found = shares_.find(token);
  if (found == shares_.end() || found->second.session != session) return;
  shares_.erase(found);
  --counts_[session];
}

void ShareTable::RemoveSession(uint64_t session) {
  holders_.erase(session);
  if (counts_.erase(session) == 0) return;
  std::erase_if(shares_, [&](const auto& share) { return share.second.session == session; });
}

const ShareTable::Entry* ShareTable::Find(const ShareToken& token) const {
  const auto found = shares_.find(token);
  return found == shares_.end() ? nullptr : &found->second;
}

}  // namespace tessera
