#include "server/shares/share_broker.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>

#include "protocol/base/check.h"

namespace tessera {

ShareToken NewShareToken() {
  ShareToken token;
  // Up to 256 bytes come whole once the kernel's generator is seeded (getrandom(2)).
  CHECK(getrandom(token.bytes.data(), token.bytes.size(), 0) == static_cast<ssize_t>(token.bytes.size()));
  return token;
}

Status LocalShareBroker::Publish(const ShareToken& token, const ShareFacts& facts, int fd) {
  UniqueFd copy;
  if (fd >= 0) {
    copy.reset(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy.valid()) return Status::FromErrno("cannot keep a shared object", errno);
  }
  MutexLock lock(mutex_);
  return table_.Add(0, token, facts, std::move(copy));
}

void LocalShareBroker::Revoke(const ShareToken& token) {
  MutexLock lock(mutex_);
  table_.Remove(0, token);
}

Result<Share> LocalShareBroker::Fetch(const ShareToken& token) {
  MutexLock lock(mutex_);
  const ShareTable::Entry* entry = table_.Find(token);
  if (entry == nullptr) return Status(StatusCode::kNotFound, "nothing is shared under this handle");
  Share share;
  share.facts = entry->facts;
  if (entry->fd.valid()) {
    share.fd.reset(fcntl(entry->fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!share.fd.valid()) return Status::FromErrno("cannot take a shared object", errno);
  }
  return share;
}

}  // namespace tessera
