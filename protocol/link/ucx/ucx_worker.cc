#include "protocol/link/ucx/ucx_worker.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "protocol/base/clock.h"

namespace tessera {
namespace {

// A sleep ends after so long in any case: cheap, and no lost wake-up lasts for ever.
constexpr uint64_t kSleepNsMax = 1'000'000'000;
// Nobody waits, but something is unfinished: the worker's thread looks this often whether somebody makes progress.
constexpr auto kKeepEvery = std::chrono::milliseconds(1);
// The same while somebody waits, and so makes progress.
constexpr auto kKeepSeldom = std::chrono::milliseconds(20);
// Looks at the mutex before a thread sleeps for it: a call of progress takes a microsecond.
constexpr int kLooks = 200;

}  // namespace

Result<std::unique_ptr<UcxWorker>> UcxWorker::Make(UcxReach reach) {
  Result<const UcxLibrary*> ucx = LoadUcx();
  if (!ucx.ok()) return ucx.status();
  Result<ucp_context_h> context = UcxContext(reach);
  if (!context.ok()) return context.status();
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return Status::FromErrno("cannot make an event descriptor for a link", errno);
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h worker = nullptr;
  int event_fd = -1;
  ucs_status_t status = (*ucx)->ucp_worker_create(*context, &params, &worker);
  if (status == UCS_OK && (status = (*ucx)->ucp_worker_get_efd(worker, &event_fd)) != UCS_OK) {
    (*ucx)->ucp_worker_destroy(worker);
  }
  if (status != UCS_OK) {
    return Status(StatusCode::kResourceExhausted, std::string("UCX cannot make another worker (") +
                                                      (*ucx)->ucs_status_string(status) +
                                                      "): raise the limits of open files and of locked memory (ulimit -n, -l)");
  }
  return std::unique_ptr<UcxWorker>(new UcxWorker(**ucx, *context, worker, event_fd, std::move(wake)));
}

UcxWorker::UcxWorker(const UcxLibrary& ucx, ucp_context_h context, ucp_worker_h worker, int event_fd, UniqueFd wake)
    : ucx_(ucx),
      context_(context),
      worker_(worker),
      event_fd_(event_fd),
      wake_(std::move(wake)),
      next_tick_ns_(MonotonicNs() + kTickNs),
      keeper_([this] { Keep(); }) {}

UcxWorker::Hold::Hold(UcxWorker& worker) : worker_(worker) {
  worker.wanted_.fetch_add(1);
  int looks = 0;
  bool held = false;
  while (!(held = worker.mutex_.try_lock()) && looks++ < kLooks) CpuRelax();
  if (!held) worker.mutex_.lock();
  worker.wanted_.fetch_sub(1);
}

UcxWorker::~UcxWorker() {
  {
    Hold hold(*this);
    ending_ = true;
    keep_.notify_all();
    Changed();
  }
  keeper_.join();
  ucx_.ucp_worker_destroy(worker_);
}

unsigned UcxWorker::Progress() {
  ++progressed_;
  return ucx_.ucp_worker_progress(worker_);
}

void UcxWorker::Changed() {
  if (waiting_ != 0) changed_.notify_all();
  const uint64_t one = 1;
  if (watching_) [[maybe_unused]]
    const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void UcxWorker::Unfinished(int change) {
  if (unfinished_ == 0) keep_.notify_all();
  unfinished_ += change;
  // What was just begun may need the descriptor to be armed again.
  if (change > 0 && watching_) Changed();
}

bool UcxWorker::Wait(AdaptiveSpin& spin, const Ready& ready, uint64_t deadline_ns) {
  const auto look = [&] {
    // Whoever holds it makes progress for us as well.
    if (wanted_.load(std::memory_order_relaxed) != 0 || !mutex_.try_lock()) return false;
    Progress();
    const bool done = ready();
    mutex_.unlock();
    return done;
  };
  if (spin.Spin(look)) return true;
  MutexLock lock(mutex_);
  for (;;) {
    if (ready()) return true;
    const uint64_t now_ns = MonotonicNs();
    if (now_ns >= deadline_ns) return false;
    const uint64_t sleep_ns = std::min(deadline_ns - now_ns, kSleepNsMax);
    if (!watching_) {
      if (Watch(ready, sleep_ns)) return true;
    } else {
      ++waiting_;
      changed_.wait_for(mutex_, std::chrono::nanoseconds(sleep_ns));
      --waiting_;
    }
  }
}

bool UcxWorker::Watch(const Ready& ready, uint64_t sleep_ns_max) {
  do {
    while (Progress() != 0) {
    }
    if (ready()) return true;
  } while (ucx_.ucp_worker_arm(worker_) == UCS_ERR_BUSY);
  watching_ = true;
  mutex_.unlock();
  pollfd events[2] = {{event_fd_, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  poll(events, 2, static_cast<int>(sleep_ns_max / 1'000'000) + 1);
  uint64_t woken = 0;
  if (events[1].revents != 0) [[maybe_unused]]
    const ssize_t got = read(wake_.get(), &woken, sizeof(woken));
  mutex_.lock();
  watching_ = false;
  // Somebody else has to watch now, unless this thread does it again.
  Progress();
  if (waiting_ != 0) changed_.notify_all();
  return false;
}

void UcxWorker::SetTick(std::function<void()> tick) {
  Hold hold(*this);
  tick_ = std::move(tick);
}

void UcxWorker::Tick() {
  const uint64_t now_ns = MonotonicNs();
  if (now_ns < next_tick_ns_) return;
  next_tick_ns_ = now_ns + kTickNs;
  // Whatever came while this process could not run counts before anybody looks at the clock.
  while (Progress() != 0) {
  }
  if (tick_) tick_();
}

void UcxWorker::Keep() {
  MutexLock lock(mutex_);
  while (!ending_) {
    Tick();
    if (unfinished_ == 0) {
      const uint64_t now_ns = MonotonicNs();
      if (now_ns < next_tick_ns_) keep_.wait_for(mutex_, std::chrono::nanoseconds(next_tick_ns_ - now_ns));
      continue;
    }
    const uint64_t progressed = progressed_;
    keep_.wait_for(mutex_, watching_ ? kKeepSeldom : kKeepEvery);
    if (!ending_ && !watching_ && progressed_ == progressed) Watch([this] { return unfinished_ == 0; }, kSleepNsMax);
  }
}

}  // namespace tessera
