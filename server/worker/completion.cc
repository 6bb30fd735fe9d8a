#include "server/worker/completion.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "generated/driver_table.h"
#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "server/worker/threads/thread_contexts.h"

namespace tessera {
namespace {

// Streams that words have told of, and which have not settled.
constexpr size_t kToldMax = 16;
constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

bool CoresAreFew() { return std::thread::hardware_concurrency() <= Completion::kFewCores; }

bool IsSpecial(CUstream stream) { return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD; }

}  // namespace

Completion::Completion(const DriverTable& driver, ThreadContexts& contexts, DoneWords& words)
    : driver_(driver),
      contexts_(contexts),
      words_(words),
      cache_(driver, contexts),
      spin_ns_(CoresAreFew() ? kSpinFewCoresNs : kSpinNs),
      poll_gap_ns_max_(CoresAreFew() ? kPollGapNsMaxFewCores : kPollGapNsMax),
      thread_([this] { Loop(); }) {}

Completion::~Completion() { Stop(); }

CUresult Completion::WhenDone(CUstream stream, Callback callback, bool is_work) {
  CUcontext context = contexts_.current();
  if (!IsSpecial(stream)) {
    if (const CUresult result = driver_.cuStreamGetCtx(stream, &context); result != CUDA_SUCCESS) return result;
  }
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const bool may_keep = MayKeep() && context == contexts_.current();
  CUresult result = may_keep && !IsSpecial(stream) ? AskStream(stream) : CUDA_ERROR_NOT_READY;
  const bool busy = result == CUDA_ERROR_NOT_READY;
  if (!busy && result != CUDA_SUCCESS) return result;
  if (!busy && !is_work && !WaitsForDefaultStream(stream)) {
    callback(CUDA_SUCCESS);
    return CUDA_SUCCESS;
  }
  Watch watch;
  result = cache_.Take(context, &watch.event);
  if (result != CUDA_SUCCESS) return result;
  watch.cached = true;
  watch.callback = std::move(callback);
  const CUevent event = watch.event;
  if (may_keep && busy && copied_.load(std::memory_order_relaxed) != stream) watch.word = words_.WriteBehind(stream);
  result = driver_.cuEventRecord(event, stream);
  if (result == CUDA_SUCCESS) {
    // No other thread is needed then. Only while nothing is pending, so that order is kept.
    if (!watch.word && pending() == 0 && driver_.cuEventQuery(event) == CUDA_SUCCESS) {
      cache_.Put(context, event, true);
      watch.callback(CUDA_SUCCESS);
      return CUDA_SUCCESS;
    }
    const uint64_t key = IsSpecial(stream) ? reinterpret_cast<uint64_t>(context) : reinterpret_cast<uint64_t>(stream);
    result = Add(key, context, std::move(watch));
    if (result == CUDA_SUCCESS) return result;
  }
  cache_.Put(context, event, false);
  return result;
}

CUresult Completion::AskStream(CUstream stream) {
  const CUresult result = driver_.cuStreamQuery(stream);
  const uint64_t told_ns = told_ns_.load(std::memory_order_relaxed);
  const bool just_told = result == CUDA_ERROR_NOT_READY && told_ns != 0 && MonotonicNs() - told_ns < kSettleSoonNs;
  return just_told && Settle() ? driver_.cuStreamQuery(stream) : result;
}

bool Completion::WaitsForDefaultStream(CUstream stream) {
  unsigned flags = CU_STREAM_DEFAULT;
  return driver_.cuStreamGetFlags(stream, &flags) != CUDA_SUCCESS || (flags & CU_STREAM_NON_BLOCKING) == 0;
}

CUresult Completion::WhenEventDone(CUcontext context, CUevent event, Callback callback) {
  Watch watch;
  watch.event = event;
  watch.callback = std::move(callback);
  return Add(reinterpret_cast<uint64_t>(event), context, std::move(watch));
}

CUresult Completion::AfterEvent(CUcontext context, CUevent event, std::function<void()> action) {
  Watch watch;
  watch.callback = [action = std::move(action)](CUresult) { action(); };
  return Add(reinterpret_cast<uint64_t>(event), context, std::move(watch));
}

CUresult Completion::Add(uint64_t key, CUcontext context, Watch watch) {
  // Only one, so that no callback of an older one can be due before it.
  const bool may_keep = watch.event != nullptr && MayKeep();
  if (pending_.fetch_add(1, std::memory_order_relaxed) >= kPendingMax) {
    pending_.fetch_sub(1, std::memory_order_relaxed);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  MutexLock lock(mutex_);
  if (stopped_) {
    pending_.fetch_sub(1, std::memory_order_relaxed);
    return CUDA_ERROR_DEINITIALIZED;
  }
  Arrival arrival{key, context, std::move(watch)};
  if (may_keep) {
    own_.emplace(std::move(arrival));
    own_->since_ns = own_->asked_ns = MonotonicNs();
    keeps_own_.store(true, std::memory_order_release);
  } else {
    if (own_) GiveOwnLocked();  // it came first
    Arrive(std::move(arrival));
  }
  return CUDA_SUCCESS;
}

void Completion::Arrive(Arrival arrival) {
  arrivals_.push_back(std::move(arrival));
  arrived_.fetch_add(1, std::memory_order_release);
  if (sleeping_) wake_.notify_one();
}

void Completion::GiveOwnLocked() {
  Arrive(std::move(*own_));
  own_.reset();
  keeps_own_.store(false, std::memory_order_release);
}

void Completion::GiveOwnNow() {
  MutexLock lock(mutex_);
  if (own_) GiveOwnLocked();
}

Completion::Own Completion::PollOwn() {
  if (!keeps_own_.load(std::memory_order_acquire)) return Own::kNone;
  std::optional<Arrival> done;
  CUresult result = CUDA_SUCCESS;
  {
    // Held while the driver is asked: whoever destroys the event does it behind this watch (AfterEvent), so through Add().
    MutexLock lock(mutex_);
    if (!own_) return Own::kNone;
    const uint64_t now_ns = MonotonicNs();
    const uint64_t waited_ns = now_ns - own_->since_ns;
    result = AskOwn(now_ns, waited_ns);
    if (result == CUDA_ERROR_NOT_READY) return waited_ns < spin_ns_ ? Own::kYoung : Own::kOld;
    if (own_->told) {
      KeepTold(*own_);
    } else {
      PutEvent(own_->context, own_->watch, result);
    }
    done.swap(own_);
    keeps_own_.store(false, std::memory_order_release);
  }
  Finish(std::move(done->watch), result);
  return Own::kDone;
}

CUresult Completion::AskOwn(uint64_t now_ns, uint64_t waited_ns) {
  const Watch& watch = own_->watch;
  uint64_t gap_ns = waited_ns < spin_ns_ ? 0 : waited_ns / kOwnPollGapShare;
  if (watch.word) {
    own_->told = watch.word.seen();
    if (own_->told) return CUDA_SUCCESS;
    gap_ns = std::max(gap_ns, kWordNs);
  }
  if (now_ns - own_->asked_ns < gap_ns) return CUDA_ERROR_NOT_READY;
  own_->asked_ns = now_ns;
  const CUresult result = contexts_.Set(own_->context);
  return result == CUDA_SUCCESS ? driver_.cuEventQuery(watch.event) : result;
}

void Completion::KeepTold(const Arrival& arrival) {
  if (told_.size() == kToldMax) SettleLocked();
  const Told told{arrival.key, arrival.context, arrival.watch.event};
  const auto found = std::ranges::find(told_, arrival.key, &Told::key);
  if (found == told_.end()) {
    told_.push_back(told);
  } else {
    const Told older = std::exchange(*found, told);
    cache_.Put(older.context, older.event, true);
  }
  told_ns_.store(MonotonicNs(), std::memory_order_release);
}

bool Completion::Settle() {
  if (told_ns_.load(std::memory_order_acquire) == 0) return false;
  MutexLock lock(mutex_);
  const bool any = !told_.empty();
  SettleLocked();
  return any;
}

void Completion::SettleLocked() {
  const CUcontext before = contexts_.current();
  const uint64_t end_ns = MonotonicNs() + kSettleNs;
  for (const Told& told : told_) {
    CUresult result = contexts_.Set(told.context);
    while (result == CUDA_SUCCESS) {
      result = driver_.cuEventQuery(told.event);
      if (result != CUDA_ERROR_NOT_READY || MonotonicNs() > end_ns) break;
      CpuRelax();
      result = CUDA_SUCCESS;
    }
    cache_.Put(told.context, told.event, result == CUDA_SUCCESS);
  }
  told_.clear();
  told_ns_.store(0, std::memory_order_relaxed);
  if (contexts_.Set(before) != CUDA_SUCCESS) contexts_.Forget();
}

void Completion::PutEvent(CUcontext context, const Watch& watch, CUresult result) {
  if (watch.cached) cache_.Put(context, watch.event, result == CUDA_SUCCESS);
}

void Completion::Finish(Watch watch, CUresult result) {
  watch.callback(result);
  watch.callback = nullptr;
  pending_.fetch_sub(1, std::memory_order_relaxed);
}

void Completion::LeaveEvent(CUevent event) {
  Leave leave{reinterpret_cast<uint64_t>(event)};
  MutexLock lock(mutex_);
  if (stopped_) return;
  if (own_) GiveOwnLocked();
  leaves_.push_back(&leave);
  leaving_.store(static_cast<uint32_t>(leaves_.size()), std::memory_order_relaxed);
  arrived_.fetch_add(1, std::memory_order_release);
  wake_.notify_one();
  while (!leave.done && !stopped_) left_.wait(mutex_);
  std::erase(leaves_, &leave);
  leaving_.store(static_cast<uint32_t>(leaves_.size()), std::memory_order_relaxed);
}

bool Completion::DrainContext(CUcontext context) {
  Drain drain{context};
  {
    MutexLock lock(mutex_);
    if (!stopped_) {
      if (own_) GiveOwnLocked();
      drains_.push_back(&drain);
      draining_.store(static_cast<uint32_t>(drains_.size()), std::memory_order_relaxed);
      arrived_.fetch_add(1, std::memory_order_release);
      wake_.notify_one();
    }
    while (!drain.done && !stopped_) drained_.wait(mutex_);
    std::erase(drains_, &drain);
    if (drain.done) SettleLocked();  // their events go back to the cache
    draining_.store(static_cast<uint32_t>(drains_.size()), std::memory_order_relaxed);
  }
  if (drain.done) cache_.DropContext(context);
  return drain.done;
}

void Completion::Stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    stopping_.store(true, std::memory_order_release);
    wake_.notify_one();
    drained_.notify_all();
    left_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mutex_);
  arrivals_.clear();
  own_.reset();
  keeps_own_.store(false, std::memory_order_release);
}

void Completion::Loop() {
  pthread_setname_np(pthread_self(), "tessera-done");
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // 1 µs: the default of 50 µs would double the longest poll gap
  while (!stopping_.load(std::memory_order_acquire)) {
    if (arrived_.load(std::memory_order_acquire) != 0) TakeArrivals();
    if (leaving_.load(std::memory_order_acquire) != 0) AnswerLeaves();
    const uint64_t now_ns = MonotonicNs();
    uint64_t next_ns = kNever;
    const bool progressed = PollQueues(now_ns, &next_ns);
    if (draining_.load(std::memory_order_acquire) != 0) AnswerDrains();
    if (progressed) continue;
    if (next_ns <= now_ns) {
      CpuRelax();
      continue;
    }
    const auto called = [this] {
      return arrived_.load(std::memory_order_acquire) != 0 || stopping_.load(std::memory_order_acquire);
    };
    if (queues_.empty() && idle_spin_.Spin(called)) continue;
    Sleep(next_ns);
  }
  queues_.clear();
  by_key_.clear();
}

void Completion::TakeArrivals() {
  {
    MutexLock lock(mutex_);
    arrived_.store(0, std::memory_order_relaxed);
    taken_.swap(arrivals_);
  }
  const uint64_t now_ns = MonotonicNs();
  for (Arrival& arrival : taken_) {
    Queue*& queue = by_key_[arrival.key];
    if (queue == nullptr) {
      queues_.push_back(std::make_unique<Queue>());
      queue = queues_.back().get();
      queue->key = arrival.key;
      queue->since_ns = arrival.since_ns != 0 ? arrival.since_ns : now_ns;
    }
    queue->context = arrival.context;
    queue->watches.push_back(std::move(arrival.watch));
  }
  taken_.clear();
}

bool Completion::PollQueues(uint64_t now_ns, uint64_t* next_ns) {
  bool progressed = false;
  for (size_t i = 0; i < queues_.size();) {
    Queue& queue = *queues_[i];
    if (queue.next_ns <= now_ns) progressed |= PollQueue(queue, now_ns);
    if (queue.watches.empty()) {
      by_key_.erase(queue.key);
      std::swap(queues_[i], queues_.back());
      queues_.pop_back();
      continue;
    }
    *next_ns = std::min(*next_ns, queue.next_ns);
    ++i;
  }
  return progressed;
}

bool Completion::PollQueue(Queue& queue, uint64_t now_ns) {
  bool progressed = false;
  while (!queue.watches.empty()) {
    Watch& watch = queue.watches.front();
    CUresult result = CUDA_SUCCESS;
    if (watch.event != nullptr) {
      result = contexts_.Set(queue.context);
      if (result == CUDA_SUCCESS) result = driver_.cuEventQuery(watch.event);
      if (result == CUDA_ERROR_NOT_READY) {
        const uint64_t waited_ns = now_ns - queue.since_ns;
        queue.next_ns = waited_ns < spin_ns_ ? now_ns : now_ns + std::min(waited_ns / kPollGapShare, poll_gap_ns_max_);
        return progressed;
      }
    }
    Watch done = std::move(watch);
    queue.watches.pop_front();
    queue.since_ns = now_ns;
    queue.next_ns = now_ns;
    PutEvent(queue.context, done, result);
    Finish(std::move(done), result);
    TellEnd();
    progressed = true;
  }
  return progressed;
}

void Completion::OnEnd(std::function<void()> on_end) {
  MutexLock lock(mutex_);
  on_end_ = std::move(on_end);
}

void Completion::TellEnd() {
  std::function<void()> on_end;
  {
    MutexLock lock(mutex_);
    on_end = on_end_;
  }
  if (on_end) on_end();
}

void Completion::AnswerDrains() {
  MutexLock lock(mutex_);
  bool any = false;
  for (Drain* drain : drains_) {
    const auto of_context = [&](const auto& item) { return item->context == drain->context; };
    const bool pending = std::any_of(queues_.begin(), queues_.end(), of_context) ||
                         std::any_of(arrivals_.begin(), arrivals_.end(),
                                     [&](const Arrival& arrival) { return arrival.context == drain->context; });
    if (pending) continue;
    drain->done = true;
    any = true;
  }
  std::erase_if(drains_, [](const Drain* drain) { return drain->done; });
  draining_.store(static_cast<uint32_t>(drains_.size()), std::memory_order_relaxed);
  if (any) drained_.notify_all();
}

void Completion::AnswerLeaves() {
  std::vector<uint64_t> keys;
  {
    MutexLock lock(mutex_);
    if (!arrivals_.empty()) return;  // an older watch may be among them
    for (const Leave* leave : leaves_) {
      if (!leave->done) keys.push_back(leave->key);
    }
  }
  for (const uint64_t key : keys) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) continue;
    std::deque<Watch> left;
    left.swap(found->second->watches);
    for (Watch& watch : left) {
      if (watch.event == nullptr) found->second->watches.push_back(std::move(watch));
    }
    found->second->next_ns = 0;  // so that the queue goes if it is empty now
    for (Watch& watch : left) {
      if (watch.event != nullptr) Finish(std::move(watch), CUDA_ERROR_NOT_READY);
    }
  }
  MutexLock lock(mutex_);
  for (Leave* leave : leaves_) leave->done = leave->done || std::ranges::find(keys, leave->key) != keys.end();
  left_.notify_all();
}

void Completion::Sleep(uint64_t until_ns) {
  MutexLock lock(mutex_);
  if (arrived_.load(std::memory_order_relaxed) != 0 || stopped_) return;
  sleeping_ = true;
  if (until_ns == kNever) {
    wake_.wait(mutex_);
  } else {
    const uint64_t now_ns = MonotonicNs();
    if (until_ns > now_ns) wake_.wait_for(mutex_, std::chrono::nanoseconds(until_ns - now_ns));
  }
  sleeping_ = false;
}

}  // namespace tessera
