#include "server/broker/poller.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <algorithm>

#include "protocol/base/check.h"
#include "protocol/base/clock.h"

namespace tessera {
namespace {

constexpr int kSourceBits = 3;
constexpr int64_t kNsPerSecond = 1'000'000'000;

epoll_event EventOf(uint32_t events, Poller::Source source, uint64_t session) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = session << kSourceBits | static_cast<uint64_t>(source);
  return event;
}

}  // namespace

Result<Poller> Poller::Make() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll.valid() || !timer.valid()) return Status::FromErrno("cannot create a descriptor for events", errno);
  Poller poller(std::move(epoll), std::move(timer));
  RETURN_IF_ERROR(poller.Add(poller.timer_.get(), Source::kTimer));
  return poller;
}

Status Poller::Add(int fd, Source source, uint64_t session) {
  CHECK(session <= kSessionMax);
  epoll_event event = EventOf(source == Source::kRing ? EPOLLIN | EPOLLET : EPOLLIN, source, session);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return Status::Ok();
  return Status::FromErrno("cannot wait for a descriptor", errno);
}

void Poller::Remove(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void Poller::Silence(int fd, uint64_t session) {
  epoll_event event = EventOf(EPOLLET, Source::kRing, session);
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Poller::Listen(int fd, uint64_t session) {
  epoll_event event = EventOf(EPOLLIN | EPOLLET, Source::kRing, session);
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

std::span<const Poller::Event> Poller::Wait(int64_t until_ns) {
  if (until_ns != timer_ns_) {
    const int64_t at_ns = until_ns == INT64_MAX ? 0 : std::max<int64_t>(until_ns, 1);  // 0: none
    const itimerspec when = {.it_interval = {}, .it_value = {.tv_sec = at_ns / kNsPerSecond, .tv_nsec = at_ns % kNsPerSecond}};
    CHECK(timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr) == 0);
    timer_ns_ = until_ns;
  }
  return Take(-1);
}

std::span<const Poller::Event> Poller::WaitAwake(int64_t until_ns) {
  do {
    if (!Take(0).empty()) break;
  } while (static_cast<int64_t>(MonotonicNs()) < until_ns);
  return events_;
}

std::span<const Poller::Event> Poller::Take(int timeout_ms) {
  epoll_event ready[kEventsMax];
  const int count = epoll_wait(epoll_.get(), ready, kEventsMax, timeout_ms);
  events_.clear();
  for (int i = 0; i < count; ++i) {
    const auto source = static_cast<Source>(ready[i].data.u64 & ((1 << kSourceBits) - 1));
    if (source == Source::kTimer) {
      timer_ns_ = -1;  // it has to be set again
    } else {
      events_.push_back({source, ready[i].data.u64 >> kSourceBits});
    }
  }
  return events_;
}

}  // namespace tessera
