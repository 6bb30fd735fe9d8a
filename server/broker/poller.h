// What the broker waits for: descriptors, and a time. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

class Poller {
 public:
  enum class Source : uint64_t { kTimer, kSignals, kLine, kRing, kProcess, kCalls };
  struct Event {
    Source source;
    uint64_t session;  // of kRing and kProcess
  };
  static constexpr uint64_t kSessionMax = UINT64_MAX >> 3;
  static constexpr size_t kEventsMax = 64;  // of one Wait(); what is left over comes first in the next

  static Result<Poller> Make();

  // `fd` is readable. An eventfd (kRing) is not read: each write to it is an event, so that nobody who has it too can make its
  // reader wait, and it costs one system call less.
  Status Add(int fd, Source source, uint64_t session = 0);
  // Before it is closed: others may have the same file open.
  void Remove(int fd);
  // No more events of this eventfd, or events again; one at once if it was written to meanwhile.
  void Silence(int fd, uint64_t session);
  void Listen(int fd, uint64_t session);

  // Sleeps until there are events, or until `until_ns` (MonotonicNs; INT64_MAX: for ever), then empty. Valid until the next call.
  std::span<const Event> Wait(int64_t until_ns);
  // The same without sleeping.
  std::span<const Event> WaitAwake(int64_t until_ns);

 private:
  std::span<const Event> Take(int timeout_ms);

  Poller(UniqueFd epoll, UniqueFd timer) : epoll_(std::move(epoll)), timer_(std::move(timer)) {}

  UniqueFd epoll_;
  UniqueFd timer_;
  int64_t timer_ns_ = INT64_MAX;
  std::vector<Event> events_;
};

}  // namespace tessera
