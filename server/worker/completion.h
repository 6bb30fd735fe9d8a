// Tells when GPU work is done, without any thread of the session waiting inside the driver for it.
//
//   worker.completion().WhenDone(stream, [deferred](CUresult result) mutable { deferred.Finish(result); });
//
// WhenDone records an event behind everything enqueued on the stream so far; the completion thread polls the oldest event
// of every stream (spinning while work is young, then in growing sleeps) and runs the callbacks in order per stream.
// Events come from a cache per context. Events that belong to the application are watched with WhenEventDone.
//
// A watch that the executor asks for while no other is pending is polled by the executor itself as long as it has nothing else
// to do: for kSpinNs, and where there are cores to spare as long after that as waiting has lately paid (Executor::AwaitOwn). So
// what a program waits for is answered without another thread, which sleeps meanwhile; waking it and then the executor costs
// some 100 us. Before the executor takes its next record it gives such a watch to the completion thread. It is an event like any
// other, recorded when it was asked for, so nothing that is enqueued afterwards, by whomever, is waited for. For the executor's
// own waits the stream writes a word before the event (done_words.h), and the event is only asked now and then: it tells of
// failures.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/channel/waiting.h"
#include "server/worker/done_words.h"
#include "server/worker/event_cache.h"

namespace tessera {

struct DriverTable;    // generated/driver_table.h
class ThreadContexts;  // threads/thread_contexts.h

class Completion {
 public:
  // Runs on the completion thread, on the executor between two records, or, when the work is done already, inside WhenDone on
  // the caller's: the caller must hold no lock that the callback takes. It must not block; replying and sending notices is
  // what it is for.
  // `result` is CUDA_SUCCESS, or the error the driver reported (a sticky one comes back from every later call as well).
  using Callback = std::function<void(CUresult result)>;

  // Watches pending at once, over all streams of a session: one per call in flight and per copy piece. Beyond it the
  // caller gets CUDA_ERROR_OUT_OF_MEMORY.
  static constexpr size_t kPendingMax = size_t{1} << 20;
  // How long the oldest event of a stream is polled without a pause: young work is what a program waits for. Where cores
  // are few the poller would take one from the client that waits.
  static constexpr uint64_t kSpinNs = 100'000;
  static constexpr uint64_t kSpinFewCoresNs = 10'000;
  static constexpr unsigned kFewCores = 4;
  // After that a poll comes every so many parts of the time waited so far, at most this far apart. Where cores are few the polls
  // of many workers would take much of their time.
  static constexpr uint64_t kPollGapShare = 64;
  static constexpr uint64_t kPollGapNsMax = 50'000;
  static constexpr uint64_t kPollGapNsMaxFewCores = 1'000'000;
  // The executor's: it stays awake between two of them.
  static constexpr uint64_t kOwnPollGapShare = 512;
  // Between two questions about an event whose word tells first.
  static constexpr uint64_t kWordNs = 3'000;
  // How long an event may take whose word has told: it is the very next thing that its stream does.
  static constexpr uint64_t kSettleNs = 100'000;
  static constexpr uint64_t kSettleSoonNs = 5'000;

  // All outlive it.
  Completion(const DriverTable& driver, ThreadContexts& contexts, DoneWords& words);
  ~Completion();  // Stop()

  // The completion thread calls it behind each callback from now on. Any thread.
  void OnEnd(std::function<void()> on_end) EXCLUDES(mutex_);

  // Calls `callback` once when everything enqueued on `stream` until now is done. `stream` is the driver's stream;
  // 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD mean the calling thread's current context. Executor, aside, helper threads.
  // CUDA_SUCCESS: the callback will run. Otherwise nothing will run and the code is the driver's: the caller answers.
  // Must not be used on a stream that is being captured, nor on the legacy stream while a blocking stream is captured.
  CUresult WhenDone(CUstream stream, Callback callback) { return WhenDone(stream, std::move(callback), false); }
  // The same for what is work of the stream itself: not before what holds up work that the stream is given next, which nobody is
  // told who asks a stream without work (cuCtxWaitEvent).
  CUresult WhenReached(CUstream stream, Callback callback) { return WhenDone(stream, std::move(callback), true); }

  // Calls `callback` once when `event`, an event of the application in context `context`, is done as far as it was
  // recorded until now. An event that was never recorded is done. When the application records it again the callback
  // waits for the newer record. The event must not be destroyed meanwhile: AfterEvent() is how. Any thread.
  CUresult WhenEventDone(CUcontext context, CUevent event, Callback callback);

  // Runs `action` on the completion thread once no watch on `event` is pending (soon, when there is none): how an event
  // that may be watched is destroyed. Watches asked for later come after it. Any thread.
  CUresult AfterEvent(CUcontext context, CUevent event, std::function<void()> action);

  // Ends every watch on `event` that was asked for, with CUDA_ERROR_NOT_READY, unless it is done before; nobody asks the event
  // any more then. Its actions (AfterEvent) still run. Executor, aside and helper threads; not from a callback.
  void LeaveEvent(CUevent event) EXCLUDES(mutex_);

  // Waits until no watch of `context` is pending, then destroys the cached events of that context. For a helper thread,
  // before the context is destroyed or reset. False when the session ended first.
  bool DrainContext(CUcontext context);

  // The executor's part: says that the calling thread is the executor, from now on.
  void BeginExecutor() { executor_.store(std::this_thread::get_id(), std::memory_order_relaxed); }
  // What the session enqueued last was a copy on `stream`; a kernel, on any. Behind a copy a word comes no earlier than an event:
  // it is another engine that writes it. For speed alone. Any thread.
  void NoteCopy(CUstream stream) { copied_.store(stream, std::memory_order_relaxed); }
  void NoteKernel() { copied_.store(kNone, std::memory_order_relaxed); }

  // What became of the watch that the executor keeps.
  enum class Own : uint8_t {
    kNone,   // it keeps none
    kDone,   // it was done, and its callback has run
    kYoung,  // it is not done, and younger than kSpinNs
    kOld,    // it is not done
  };
  // The executor has no record: looks once at the watch that it keeps.
  Own PollOwn() EXCLUDES(mutex_);
  // The executor has a record: the completion thread takes over what it keeps.
  void GiveOwn() EXCLUDES(mutex_) {
    if (keeps_own_.load(std::memory_order_relaxed)) GiveOwnNow();
  }

  // Waits, kSettleNs at most, until to the driver, too, all is done that words have told of. False when it was so before.
  // Executor and aside threads; their current context stays.
  bool Settle() EXCLUDES(mutex_);

  // Ends the thread; pending callbacks are destroyed without being called. Idempotent.
  void Stop();

  size_t pending() const { return pending_.load(std::memory_order_relaxed); }

 private:
  struct Watch {
    CUevent event = nullptr;  // null: an action, done as soon as it is the oldest
    bool cached = false;      // the event goes back to the cache
    DoneWord word;            // told before the event; may be empty. Looked at by the executor alone
    Callback callback;
  };
  // Watches in the order they were asked for; only the oldest is polled. One per stream, one per application event.
  struct Queue {
    uint64_t key = 0;
    CUcontext context = nullptr;
    std::deque<Watch> watches;
    uint64_t since_ns = 0;  // when the oldest watch became the oldest
    uint64_t next_ns = 0;   // when to poll it again
  };
  struct Arrival {
    uint64_t key;  // the stream or event; special streams: the context
    CUcontext context;
    Watch watch;
    uint64_t since_ns = 0;  // when the executor began to poll it; 0: nobody has
    uint64_t asked_ns = 0;  // when the executor last asked its event
    bool told = false;      // by its word
  };
  struct Drain {
    CUcontext context;
    bool done = false;
  };
  struct Leave {
    uint64_t key;
    bool done = false;
  };

  // The event of a watch that its word ended.
  struct Told {
    uint64_t key;  // as in Arrival
    CUcontext context;
    CUevent event;
  };

  CUresult WhenDone(CUstream stream, Callback callback, bool is_work);
  // What the driver says of the stream, and of nothing that the stream waits for next.
  CUresult AskStream(CUstream stream) EXCLUDES(mutex_);
  // What the stream is given next, an event too, waits for what the default stream was given.
  bool WaitsForDefaultStream(CUstream stream);
  void KeepTold(const Arrival& arrival) REQUIRES(mutex_);
  void SettleLocked() REQUIRES(mutex_);
  CUresult Add(uint64_t key, CUcontext context, Watch watch) EXCLUDES(mutex_);
  // The calling thread is the executor, and no watch is pending.
  bool MayKeep() const { return pending() == 0 && std::this_thread::get_id() == executor_.load(std::memory_order_relaxed); }
  // What is known of the watch that the executor keeps, and has waited for so long.
  CUresult AskOwn(uint64_t now_ns, uint64_t waited_ns) REQUIRES(mutex_);
  void Arrive(Arrival arrival) REQUIRES(mutex_);
  void GiveOwnNow() EXCLUDES(mutex_);
  void GiveOwnLocked() REQUIRES(mutex_);
  // The two ends of a watch that is in no queue any more. Its event first, and as long as Drain would wait for the watch.
  void PutEvent(CUcontext context, const Watch& watch, CUresult result);
  void Finish(Watch watch, CUresult result);
  void Loop();
  void TakeArrivals();
  // Polls every queue that is due; true when a watch finished. `next_ns` becomes the time of the next poll that is due.
  bool PollQueues(uint64_t now_ns, uint64_t* next_ns);
  bool PollQueue(Queue& queue, uint64_t now_ns);
  void TellEnd() EXCLUDES(mutex_);
  void AnswerDrains() EXCLUDES(mutex_);
  void AnswerLeaves() EXCLUDES(mutex_);
  void Sleep(uint64_t until_ns) EXCLUDES(mutex_);

  // No stream.
  static inline const CUstream kNone = reinterpret_cast<CUstream>(~uintptr_t{0});

  const DriverTable& driver_;
  ThreadContexts& contexts_;
  DoneWords& words_;
  EventCache cache_;
  std::atomic<CUstream> copied_{kNone};
  std::atomic<size_t> pending_{0};
  std::atomic<uint32_t> arrived_{0};   // arrivals not yet taken, and drains and leaves not yet seen
  std::atomic<uint32_t> draining_{0};  // size of drains_
  std::atomic<uint32_t> leaving_{0};   // size of leaves_

  Mutex mutex_;
  ConditionVariable wake_;
  ConditionVariable drained_;
  ConditionVariable left_;
  std::vector<Arrival> arrivals_ GUARDED_BY(mutex_);
  std::optional<Arrival> own_ GUARDED_BY(mutex_);  // kept by the executor
  std::vector<Told> told_ GUARDED_BY(mutex_);      // the last one of each stream; older ones of a stream are done before it
  std::atomic<uint64_t> told_ns_{0};               // when the last one was told; 0: told_ is empty
  std::atomic<bool> keeps_own_{false};             // own_ is not empty; becomes true by the executor alone
  std::atomic<std::thread::id> executor_;
  std::vector<Drain*> drains_ GUARDED_BY(mutex_);
  std::vector<Leave*> leaves_ GUARDED_BY(mutex_);
  bool sleeping_ GUARDED_BY(mutex_) = false;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::atomic<bool> stopping_{false};
  const uint64_t spin_ns_;          // kSpinNs or kSpinFewCoresNs
  const uint64_t poll_gap_ns_max_;  // kPollGapNsMax or kPollGapNsMaxFewCores
  AdaptiveSpin idle_spin_;          // for the next watch
  std::function<void()> on_end_ GUARDED_BY(mutex_);

  // Of the completion thread alone.
  std::vector<std::unique_ptr<Queue>> queues_;
  std::unordered_map<uint64_t, Queue*> by_key_;
  std::vector<Arrival> taken_;

  std::thread thread_;
};

}  // namespace tessera
