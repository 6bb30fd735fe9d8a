// Where a worker publishes what its session shares, and finds what others share.
#pragma once

#include <cstdint>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "server/shares/share.h"
#include "server/shares/share_table.h"

namespace tessera {

// Any thread.
class ShareBroker {
 public:
  virtual ~ShareBroker() = default;
  // Makes the object known under `token`. `fd` stays the caller's; -1 for an event. kUnavailable when the daemon is gone;
  // otherwise as ShareTable::Add.
  virtual Status Publish(const ShareToken& token, const ShareFacts& facts, int fd) = 0;
  // Ends a share of this session.
  virtual void Revoke(const ShareToken& token) = 0;
  // kNotFound when no session of this server shares anything under `token` (any more).
  virtual Result<Share> Fetch(const ShareToken& token) = 0;
};

// Within one process: sessions of tests that have both ends in it.
class LocalShareBroker : public ShareBroker {
 public:
  Status Publish(const ShareToken& token, const ShareFacts& facts, int fd) override EXCLUDES(mutex_);
  void Revoke(const ShareToken& token) override EXCLUDES(mutex_);
  Result<Share> Fetch(const ShareToken& token) override EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  ShareTable table_ GUARDED_BY(mutex_);
};

}  // namespace tessera
