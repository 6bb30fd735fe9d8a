#include "server/shares/share_table.h"

#include <utility>

namespace tessera {

Status ShareTable::Add(uint64_t session, const ShareToken& token, const ShareFacts& facts, UniqueFd fd) {
  const bool needs_fd = facts.kind != ShareKind::kEvent;
  if (facts.kind == ShareKind::kNone || fd.valid() != needs_fd) {
    return Status(StatusCode::kInvalidArgument, "a share without its object");
  }
  size_t& count = counts_[session];
  if (count >= kSessionSharesMax) {
    return Status(StatusCode::kResourceExhausted, "the session shares " + std::to_string(count) + " objects, the limit");
  }
  const auto [entry, added] = shares_.try_emplace(token, Entry{session, facts, std::move(fd)});
  if (!added) return Status(StatusCode::kInvalidArgument, "a share under a token that is taken");
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
  if (counts_.erase(session) == 0) return;
  std::erase_if(shares_, [&](const auto& share) { return share.second.session == session; });
}

const ShareTable::Entry* ShareTable::Find(const ShareToken& token) const {
  const auto found = shares_.find(token);
  return found == shares_.end() ? nullptr : &found->second;
}

}  // namespace tessera
