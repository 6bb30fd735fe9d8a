// The sessions of a server's host that outlive their links. Each has a token. A link that begins with a session's token is that
// session's next link.
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

// Any thread. Outlives what Admit() and Readmit() gave.
class ReturningLinks {
 public:
  // `grace_ns`: how long a session is kept without a link. 0: sessions end with their links, and Admit() gives null.
  explicit ReturningLinks(uint64_t grace_ns) : grace_ns_(grace_ns) {}
  uint64_t grace_ns() const { return grace_ns_; }

  // Admits a new session, over `link`. `peer` says who is at its other end, as far as that was proved (the name in its
  // certificate). Only the same peer may come back. The session can be resumed until the result is stopped or destroyed.
  std::unique_ptr<LinkSupply> Admit(std::shared_ptr<Link> link, std::string peer, ResumeToken* token) EXCLUDES(mutex_);
  // Admits a session that another process had admitted, and that has no link now.
  std::unique_ptr<LinkSupply> Readmit(const ResumeToken& token, std::string peer) EXCLUDES(mutex_);
  // Takes a link that began with a kResume frame of this payload to its session. Closes the link that the session had, whether or
  // not this side had noticed its loss. Of two that return the later one counts. kNotFound, with a sentence for the other end:
  // there is no such session (any more), or it is somebody else's. kProtocolViolation: the payload is no state.
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
