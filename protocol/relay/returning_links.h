// The sessions of a server's host that outlive their links. Each has a token; a link whose first words are that token is
// the session's next one.
//
//   ReturningLinks returning(grace_ns);
//   std::unique_ptr<LinkSupply> supply = returning.Admit(link, peer, &token);    // a session begins
//   RETURN_IF_ERROR(returning.Return(std::move(link), payload, peer));           // a link begins with kResume
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/link/link.h"
#include "protocol/link/link_supply.h"
#include "protocol/link/resume_messages.h"

namespace tessera {

// Any thread. Outlives what Admit() gave.
class ReturningLinks {
 public:
  // `grace_ns`: how long a session is kept without a link. 0: sessions end with their links, and Admit() gives nothing.
  explicit ReturningLinks(uint64_t grace_ns) : grace_ns_(grace_ns) {}
  uint64_t grace_ns() const { return grace_ns_; }

  // A new session, over `link`. `peer`: who is at its other end as far as that was proved (the name in its certificate);
  // only the same may come back. The session can be resumed until the result stops or ends.
  std::unique_ptr<LinkSupply> Admit(std::shared_ptr<Link> link, std::string peer, ResumeToken* token) EXCLUDES(mutex_);
  // A session that another process has admitted, and that has no link now.
  std::unique_ptr<LinkSupply> Readmit(const ResumeToken& token, std::string peer) EXCLUDES(mutex_);
  // Takes a link that began with a kResume frame of this payload to its session. The link that the session had is closed,
  // whether this side had noticed its loss or not; of two that return the later one counts. kNotFound, with a sentence for the
  // other end, when there is no such session (any more) or it is somebody else's; kProtocolViolation for what is no state.
  Status Return(std::shared_ptr<Link> link, std::vector<std::byte> said, const std::string& peer) EXCLUDES(mutex_);

 private:
  struct Session;
  class Supply;

  std::unique_ptr<LinkSupply> Enter(std::shared_ptr<Session> session) EXCLUDES(mutex_);

  const uint64_t grace_ns_;
  Mutex mutex_;
  std::list<std::shared_ptr<Session>> sessions_ GUARDED_BY(mutex_);
};

}  // namespace tessera
