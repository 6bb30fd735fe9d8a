// Shares over the socket between a worker and its daemon: one fixed-size message per question and per answer, with the
// descriptor beside it.
#pragma once

#include <cstdint>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "server/shares/share_broker.h"
#include "server/shares/share_table.h"

namespace tessera {

// How long a worker waits for the daemon, whose one thread never waits for anybody.
inline constexpr uint64_t kShareAnswerNs = 10'000'000'000;

// The worker's end.
class SocketShareBroker : public ShareBroker {
 public:
  // `answer_ns`: how long an answer may take. One that does not come in time ends the use of the socket: every later question
  // fails (kUnavailable).
  explicit SocketShareBroker(UniqueFd socket, uint64_t answer_ns = kShareAnswerNs)
      : answer_ns_(answer_ns), socket_(std::move(socket)) {}
  Status Publish(const ShareToken& token, const ShareFacts& facts, int fd) override EXCLUDES(mutex_);
  void Revoke(const ShareToken& token) override EXCLUDES(mutex_);
  Result<Share> Fetch(const ShareToken& token) override EXCLUDES(mutex_);

 private:
  template <typename Question, typename Answer>
  Status Ask(const Question& question, int fd, Answer* answer, UniqueFd* passed) REQUIRES(mutex_);

  const uint64_t answer_ns_;
  Mutex mutex_;  // over question and answer
  UniqueFd socket_ GUARDED_BY(mutex_);
};

// The daemon's end: answers every question that waits on `socket`, from the worker of `session`. Does not block. Anything but
// Ok: the socket is of no more use.
Status ServeShares(int socket, uint64_t session, ShareTable& table);

}  // namespace tessera
