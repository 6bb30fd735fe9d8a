// The gate between a session's records and the driver: work waits here until its vGPU may use the GPU.
//
//   if (gate.closed()) gate.Await(stream, kind);   // in a handler, right before the driver is given work
//
// The broker decides by what it writes into the worker's gate page (server/gate/gate_page.h). Nothing waits while every row is
// free. Armed, or with a token, work waits only while the driver's queue is full. Without a token it waits for one. If the broker
// is silent, work goes in when the vGPU's static slot comes (scheduler/static_slots.h). A captured launch is no work.
//
// A session is not busy while all its unfinished work waits for the client (held_streams.h): others get its token meanwhile. Work
// that stands behind such a wait in the driver later goes on without a token, and is billed.
//
// A record that waits blocks those behind it, since the order of the ring is the order between the program's threads. The wait
// ends with the session. The executor's thread, unless a comment says otherwise.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/channel/waiting.h"
#include "server/gate/gate_page.h"
#include "server/gate/report_page.h"
#include "server/worker/gate/gate_report.h"
#include "server/worker/gate/held_streams.h"
#include "server/worker/gate/idle_watch.h"
#include "server/worker/gate/queue_estimate.h"

namespace tessera {

// The pages by which the broker and this worker talk. Both null: there is no broker, and the gate is free for ever.
struct GatePages {
  const GatePage* gate = nullptr;
  ReportPage* report = nullptr;
  int event_fd = -1;  // of the broker
};

class Gate {
 public:
  // The longest queue in the driver while others may want the GPU: they would have to wait for all of it.
  static constexpr uint64_t kQueuedMaxNs = 50'000'000;
  // How often an otherwise idle worker asks the driver whether it has done everything: at first after this time, later after a
  // part of the time that it has worked.
  static constexpr uint64_t kAskMinNs = 20'000;
  static constexpr uint64_t kAskMaxNs = 200'000;
  static constexpr uint64_t kAskShare = 64;
  // The longest time that a launch takes to reach the GPU.
  static constexpr uint64_t kLaunchNs = 10'000;
  // The longest time that asking the driver about all streams takes.
  static constexpr uint64_t kLookNs = 10'000;
  // How often a wait looks whether the session has ended. That asks the kernel, while a wait may look around every 20 µs.
  static constexpr uint64_t kStopGapNs = 10'000'000;
  // Further work for a stream that waits for the client waits too, and wants no token, since it could not use one now. But the
  // client may need that work to go on. So it has a turn when the wait begins, if there is a token, and asks for a token every
  // kClientTurnsNs.
  static constexpr uint64_t kClientTurnNs = 1'000'000;
  static constexpr uint64_t kClientTurnsNs = 100'000'000;

  // `driver`, `contexts`, `streams` and the pages outlive it.
  Gate(const DriverTable& driver, ThreadContexts& contexts, BusyStreams& streams, const GatePages& pages);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Any thread.
  bool closed() const { return page_->closed_rows.load(std::memory_order_relaxed) != 0; }
  // Counts what the session does on the GPU of the current context, also while the gate is free.
  void CountKernel() { Count(&ReportPage::Row::did_kernels, 1); }
  void CountGraph() { Count(&ReportPage::Row::did_graphs, 1); }
  void CountBytesTo(uint64_t bytes) { Count(&ReportPage::Row::did_bytes_to, bytes); }
  void CountBytesFrom(uint64_t bytes) { Count(&ReportPage::Row::did_bytes_from, bytes); }
  // Where the session counts its records.
  std::atomic<uint64_t>& executed() const { return *executed_; }

  // Waits until work of this kind may go into a stream of the current context, or until the session ends. `kind`: equal for equal
  // pieces of work (WorkKind()).
  void Await(CUstream stream, uint64_t kind);
  // The same for a kernel. Call Launched() once the driver's call has returned.
  void AwaitLaunch(CUstream stream, uint64_t kind);
  // A GPU that had nothing to do begins a kernel at the end of the driver's call, so the call is not billed. Of a longer call
  // only kLaunchNs is left out: the kernel may run within it (CUDA_LAUNCH_BLOCKING in tesserad's environment).
  void Launched() {
    if (launching_ != nullptr) [[unlikely]]
      BeginSpan();
  }

  // The stream is about to capture; to wait for an event, by which it may join a capture. The executor and aside threads.
  void BeforeCapture(CUstream stream) {
    if (pages_.gate != nullptr) idle_.BeforeCapture(stream);
  }
  void BeforeWait(CUstream stream) {
    if (pages_.gate != nullptr) idle_.BeforeWait(stream);
  }
  // The program destroys a stream of this context that still works. True: the stream counts until its work is done, and is
  // destroyed then. False: the gate is free, and the caller destroys the stream.
  bool DestroysWhenDone(CUstream stream, CUcontext context);

  // Called when there is no record. Looks what the driver has done, and tells the broker. Returns when to call it again
  // (MonotonicNs), or kNoDeadline.
  uint64_t Rest();
  // kOverran: the broker or the daemon's audit ends the session. kUnavailable: its vGPU was deleted.
  Status MayGoOn() const;
  // Whether, since Rest() looked, the gate has closed or become free, or work has gone on or ended.
  bool HasNews() const { return closed() != engaged_ || held_.HasEnded() || saw_end_.load(std::memory_order_relaxed); }
  // Some work has ended, so Rest() should look soon: the broker hears of it as soon as the program does. Any thread.
  void SawEnd();

  // `stop` ends a wait. `wake` wakes the executor when it waits for a record; any thread calls it. Set once, before the first
  // record.
  void SetStop(StopPredicate stop, std::function<void()> wake = nullptr) {
    stop_ = std::move(stop);
    wake_ = std::move(wake);
  }
  IdleWatch& idle_watch() { return idle_; }
  HeldStreams& held_streams() { return held_; }

 private:
  // One GPU of the session.
  struct Lane {
    Lane(size_t lane_row, ReportPage::Row& report_row, int event_fd) : row(lane_row), report(report_row, event_fd) {}
    const size_t row;
    QueueEstimate queue;
    GateReport report;
    bool will_go_on = false;  // it was busy until all its work came to wait for the client
  };
  enum class Verdict { kPass, kAwaitRoom, kAwaitToken, kAwaitClient };

  void FindLanes();
  Lane* LaneOfCurrentDevice();
  void Count(std::atomic<uint64_t> ReportPage::Row::*what, uint64_t more) {
    ReportPage::Row* const row = only_row_ != nullptr ? only_row_ : RowOfCurrentDevice();
    if (row == nullptr) return;
    std::atomic<uint64_t>& sum = row->*what;  // there is one writer
    sum.store(sum.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  ReportPage::Row* RowOfCurrentDevice();
  GateWord WordOf(const Lane& lane) const;
  // Until when the word lets work in; `now_ns` or before: it is closed.
  uint64_t OpenUntilNs(const Lane& lane, const GateWord& word, uint64_t now_ns) const;
  bool BrokerIsSilent(uint64_t now_ns) const;
  // Whether the stream waits for the client and work behind that wait has no turn now. `open`: there is a token.
  bool AwaitsClient(CUstream stream, bool open, uint64_t now_ns);
  Verdict Judge(Lane& lane, CUstream stream, uint64_t kind, uint64_t now_ns);
  bool MustStop(uint64_t now_ns);
  void Sleep(Lane& lane, Verdict verdict, uint32_t changes, uint64_t now_ns);
  // Notes that the gate is closed now, or free again.
  void Engage();
  void Disengage();
  void BeginSpan();
  // Asks the driver, if it is time to. Returns whether nothing works.
  bool AskIdle(uint64_t now_ns, bool wakes);
  // The executor reports work again, after all of it had waited for the client.
  void GoOn();
  // A wait for the client has ended. On that wait's thread.
  void ClientAnswered(uint64_t now_ns);
  bool busy() const;
  uint64_t AskGapNs(uint64_t now_ns) const;

  const DriverTable& driver_;
  ThreadContexts& contexts_;
  BusyStreams& streams_;
  IdleWatch idle_;
  HeldStreams held_;
  const GatePages pages_;
  const GatePage* const page_;  // a page of zeros if there is none
  std::atomic<uint64_t> own_executed_{0};
  std::atomic<uint64_t>* const executed_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // by device number; null: the page does not know the GPU
  std::unique_ptr<ReportPage::Row> own_row_;  // where there is no page
  ReportPage::Row* only_row_ = nullptr;       // of a session with one GPU
  StopPredicate stop_;
  std::function<void()> wake_;
  AdaptiveSpin spin_;      // for a token that is about to come
  AdaptiveSpin end_spin_;  // for the end of work for which others wait
  bool engaged_ = false;
  bool rests_ = false;            // when the driver was last asked, all unfinished work waited for the client
  uint64_t worked_since_ns_ = 0;  // the driver was not seen idle since then; 0: it is idle
  Lane* launching_ = nullptr;     // the lane whose first work since then is a kernel that is being launched
  uint64_t asked_ns_ = 0;
  std::atomic<bool> saw_end_{false};
  uint64_t stop_asked_ns_ = 0;
  // The last wait for the client behind which work waited: since when it lasts, and when its last turn began.
  uint64_t client_since_ns_ = 0;
  uint64_t client_turn_ns_ = 0;
};

// A number for a kind of work: equal if all `parts` are.
inline uint64_t WorkKind(std::initializer_list<uint64_t> parts) {
  uint64_t kind = 0xcbf29ce484222325;  // FNV-1a (Fowler, Noll, Vo) over words
  for (uint64_t part : parts) kind = (kind ^ part) * 0x100000001b3;
  return kind;
}

}  // namespace tessera
