#include "protocol/link/joining_links.h"

#include <array>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "protocol/base/check.h"
#include "protocol/base/clock.h"
#include "protocol/base/mutex.h"
#include "protocol/link/resume_messages.h"
#include "protocol/link/striped_link.h"

namespace tessera {
namespace {

struct Join {
  uint32_t index = 0;
  uint64_t count = 1;
  ResumeToken token;
};

FrameHeader HeaderOf(const Join& join) {
  return {FrameKind::kJoin, join.index, sizeof(join.token.bytes), join.count, 0};
}

Status Violation(const char* what) {
  return Status(StatusCode::kProtocolViolation, what);
}

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
  if (join.count == 0 || join.count > kStripesMax || join.index >= join.count) {
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
  Result<AcceptedLink> Finish(UniqueFd connection, uint64_t deadline_ns) override;

 private:
  // A link some of whose connections have come. Each of them waits for the others, so there are no more of these than
  // threads in Finish().
  struct Group {
    std::vector<std::unique_ptr<Link>> links;
    size_t there = 0;
    std::string name;     // who is at the other end
    bool failed = false;  // one of them did not come
  };

  std::shared_ptr<Group> FindGroup(const Join& join, const std::string& name) REQUIRES(mutex_);

  const std::unique_ptr<LinkListener> listener_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::map<std::array<std::byte, 16>, std::shared_ptr<Group>> groups_ GUARDED_BY(mutex_);
};

Result<AcceptedLink> JoiningListener::Finish(UniqueFd connection, uint64_t deadline_ns) {
  Result<AcceptedLink> accepted = listener_->Finish(std::move(connection), deadline_ns);
  if (!accepted.ok()) return accepted;
  Result<Join> join = ReceiveJoin(*accepted->link);
  if (!join.ok()) return join.status();
  if (join->count == 1) return accepted;

  std::shared_ptr<Group> group;  // goes, perhaps with links that take their time, when the lock is given back
  MutexLock lock(mutex_);
  group = FindGroup(*join, accepted->name);
  if (group == nullptr || group->links[join->index] != nullptr) {
    return Violation("the peer brought a connection that belongs to another link");
  }
  group->links[join->index] = std::move(accepted->link);
  if (++group->there == join->count) {
    // Nobody else can come.
    groups_.erase(join->token.bytes);
    changed_.notify_all();
  }
  while (group->there != join->count && !group->failed) {
    const uint64_t now_ns = MonotonicNs();
    if (now_ns >= deadline_ns) {
      group->failed = true;
      groups_.erase(join->token.bytes);
      changed_.notify_all();
      break;
    }
    changed_.wait_for(mutex_, std::chrono::nanoseconds(deadline_ns - now_ns));
  }
  if (group->failed) return Status(StatusCode::kTimedOut, "a connection of the link did not come in time");
  if (join->index != 0) return accepted;
  Result<std::unique_ptr<Link>> link = MakeStripedLink(std::move(group->links));
  if (!link.ok()) return link.status();
  accepted->link = std::move(*link);
  return accepted;
}

std::shared_ptr<JoiningListener::Group> JoiningListener::FindGroup(const Join& join, const std::string& name) {
  std::shared_ptr<Group>& group = groups_[join.token.bytes];
  if (group == nullptr) {
    group = std::make_shared<Group>();
    group->links.resize(join.count);
    group->name = name;
  }
  return group->links.size() == join.count && group->name == name ? group : nullptr;
}

}  // namespace

Result<std::unique_ptr<Link>> ConnectJoined(uint32_t connections,
                                            const std::function<Result<std::unique_ptr<Link>>()>& connect) {
  CHECK(connections >= 1 && connections <= kStripesMax);
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
