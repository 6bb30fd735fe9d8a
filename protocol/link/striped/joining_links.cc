#include "protocol/link/striped/joining_links.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "protocol/base/check.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/mutex.h"
#include "protocol/link/resume_messages.h"
#include "protocol/link/striped/striped_link.h"

namespace tessera {
namespace {

struct Join {
  uint32_t index = 0;
  uint64_t count = 1;
  ResumeToken token;
};

FrameHeader HeaderOf(const Join& join) { return {FrameKind::kJoin, join.index, sizeof(join.token.bytes), join.count, 0}; }

Status Violation(const char* what) { return Status(StatusCode::kProtocolViolation, what); }

Result<Join> ReceiveJoin(Link& link) {
  Join join;
  Result<FrameHeader> header = link.Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> {
    if (header.kind != FrameKind::kJoin || header.bytes != sizeof(join.token.bytes)) {
      return Violation("the peer did not say which connection of a link it is");
    }
    return std::span<std::byte>(join.token.bytes);
  });
  if (!header.ok()) return header.status();
  join.index = header->target;
  join.count = header->position;
  if (join.count == 0 || join.count > kConnectionsMax || join.index >= join.count) {
    return Violation("the peer wants a link of more connections than there can be");
  }
  return join;
}

class JoiningListener : public LinkListener {
 public:
  explicit JoiningListener(std::unique_ptr<LinkListener> listener) : listener_(std::move(listener)) {}

  int fd() const override { return listener_->fd(); }
  const LinkAddress& address() const override { return listener_->address(); }
  Result<UniqueFd> Accept() override { return listener_->Accept(); }
  std::string DescribePeer(int connection) const override { return listener_->DescribePeer(connection); }
  Result<AcceptedLink> Finish(UniqueFd connection, uint64_t deadline_ns, const PeerProgress& progress) override;

 private:
  // Beyond these the oldest is given up.
  static constexpr size_t kGroupsMax = 64;

  // A link some of whose connections have come.
  struct Group {
    ResumeToken token;
    std::string name;  // who is at the other end
    uint64_t deadline_ns = 0;
    size_t there = 0;
    std::vector<std::unique_ptr<Link>> links;
  };
  using Groups = std::list<Group>;

  // Gives up those that are late or too many, and returns them.
  Groups TakeLate() REQUIRES(mutex_);

  const std::unique_ptr<LinkListener> listener_;
  Mutex mutex_;
  Groups groups_ GUARDED_BY(mutex_);  // the oldest first
};

Result<AcceptedLink> JoiningListener::Finish(UniqueFd connection, uint64_t deadline_ns, const PeerProgress& progress) {
  Result<AcceptedLink> accepted = listener_->Finish(std::move(connection), deadline_ns, progress);
  if (!accepted.ok()) return accepted;
  Result<Join> join = ReceiveJoin(*accepted->link);
  if (!join.ok()) return join.status();
  if (join->count == 1) return accepted;

  Groups late, whole;  // links that go take their time: not under the lock
  {
    MutexLock lock(mutex_);
    late = TakeLate();
    auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& one) { return one.token.Equals(join->token); });
    if (group == groups_.end()) {
      group = groups_.insert(groups_.end(), Group{join->token, accepted->name, deadline_ns, 0, {}});
      group->links.resize(join->count);
    }
    if (group->links.size() != join->count || group->name != accepted->name || group->links[join->index] != nullptr) {
      return Violation("the peer brought a connection that belongs to another link");
    }
    group->links[join->index] = std::move(accepted->link);
    if (++group->there == join->count) whole.splice(whole.end(), groups_, group);
  }
  for (Group& group : late) {
    LogInfo("{} of {} connections of a link did not come in time", group.links.size() - group.there, group.links.size());
    for (auto& link : group.links) {
      if (link != nullptr) link->Drop();
    }
  }
  if (whole.empty()) return accepted;
  Result<std::unique_ptr<Link>> link = MakeStripedLink(std::move(whole.front().links));
  if (!link.ok()) return link.status();
  accepted->link = std::move(*link);
  return accepted;
}

JoiningListener::Groups JoiningListener::TakeLate() {
  Groups late;
  const uint64_t now_ns = MonotonicNs();
  for (auto group = groups_.begin(); group != groups_.end();) {
    const auto next = std::next(group);
    if (now_ns >= group->deadline_ns || groups_.size() >= kGroupsMax) late.splice(late.end(), groups_, group);
    group = next;
  }
  return late;
}

}  // namespace

Result<std::unique_ptr<Link>> ConnectJoined(uint32_t connections, const std::function<Result<std::unique_ptr<Link>>()>& connect) {
  CHECK(connections >= 1 && connections <= kConnectionsMax);
  Join join{0, connections, ResumeToken::Mint()};
  std::vector<std::unique_ptr<Link>> links;
  for (; join.index < connections; ++join.index) {
    Result<std::unique_ptr<Link>> link = connect();
    if (!link.ok()) return link.status();
    const auto send = connections == 1 ? &Link::SendSoon : &Link::Send;
    RETURN_IF_ERROR(((**link).*send)(HeaderOf(join), join.token.bytes));
    links.push_back(std::move(*link));
  }
  return MakeStripedLink(std::move(links));
}

std::unique_ptr<LinkListener> MakeJoiningListener(std::unique_ptr<LinkListener> listener) {
  return std::make_unique<JoiningListener>(std::move(listener));
}

}  // namespace tessera
