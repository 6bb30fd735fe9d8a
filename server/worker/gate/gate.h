// The gate between a session's records and the driver: work waits here until its vGPU may use the GPU.
//
//   if (gate.closed()) gate.Await(stream, kind);   // in a handler, right before the driver is given work
//
// What a broker writes into the worker's gate page decides (server/gate/gate_page.h): nothing waits while every row is free.
// Armed, and with a token, work waits while as much is queued in the driver as may be; without a token until there is one. A
// broker that is silent is done without: work goes in when the vGPU's static slot comes (scheduler/static_slots.h). A launch that
// is captured is no work.
//
// A session whose unfinished work waits for the client (held_streams.h) is not busy: its token is another's meanwhile. What
// stands behind that wait in the driver goes on without one, and is billed.
//
// A record that waits blocks those behind it: the order of the ring is the order between the program's threads. It ends with the
// session. The executor's thread, but where a line says otherwise.
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

// Where the broker and this worker write for each other; both pages null: nobody does, and the gate is free for ever.
struct GatePages {
  const GatePage* gate = nullptr;
  ReportPage* report = nullptr;
  int event_fd = -1;  // of the broker
};

class Gate {
 public:
  // No more than this is queued in the driver while others may want the GPU: else they would have to wait for all of it.
  static constexpr uint64_t kQueuedMaxNs = 50'000'000;
  // How often the driver is asked whether it has done everything, while it works and there is nothing else to do: at first, and
  // later as a part of how long it has worked.
  static constexpr uint64_t kAskMinNs = 20'000;
  static constexpr uint64_t kAskMaxNs = 200'000;
  static constexpr uint64_t kAskShare = 64;
  // What a launch takes before the GPU has it, at most.
  static constexpr uint64_t kLaunchNs = 10'000;
  // What it takes to ask the driver about all streams, at most.
  static constexpr uint64_t kLookNs = 10'000;
  // How often a wait looks whether the session has ended: that asks the kernel, and a wait may look around every 20 µs.
  static constexpr uint64_t kStopGapNs = 10'000'000;
  // More work for a stream that waits for the client waits as well, and wants no token, which it could not use now. What the
  // client does may need that work: so it has a turn when the wait begins, if there is a token, and wants one for another every
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
  // What the session does on the GPU of the current context, for who counts it; also while the gate is free.
  void CountKernel() { Count(&ReportPage::Row::did_kernels, 1); }
  void CountGraph() { Count(&ReportPage::Row::did_graphs, 1); }
  void CountBytesTo(uint64_t bytes) { Count(&ReportPage::Row::did_bytes_to, bytes); }
  void CountBytesFrom(uint64_t bytes) { Count(&ReportPage::Row::did_bytes_from, bytes); }
  // Where the session counts its records.
  std::atomic<uint64_t>& executed() const { return *executed_; }

  // Work of this kind is about to go into a stream of the current context. `kind` stands for whatever makes two pieces of work
  // alike (WorkKind). Returns when it may, or when the session ends.
  void Await(CUstream stream, uint64_t kind);
  // The same for a kernel that Launched() follows, once the driver's call has returned.
  void AwaitLaunch(CUstream stream, uint64_t kind);
  // A GPU that had nothing to do begins a kernel at the end of the driver's call, so the call is not billed. Of a longer call
  // only kLaunchNs is left out: the kernel may run within it (CUDA_LAUNCH_BLOCKING in tesserad's environment).
  void Launched() {
    if (launching_ != nullptr) [[unlikely]]
      BeginSpan();
  }

  // The program destroys a stream of this context that works still. True: it counts until it is done, and is destroyed then.
  // False: nobody asks, and it is the caller's to destroy.
  bool DestroysWhenDone(CUstream stream, CUcontext context);

  // There is no record. Looks what the driver has done, and tells the broker; when to be asked again (MonotonicNs), or
  // kNoDeadline.
  uint64_t Rest();
  // kOverran: the broker wants the session to end, or the daemon's audit. kUnavailable: its vGPU was deleted.
  Status MayGoOn() const;
  // It has closed, or is free again, or work has gone on or ended, since Rest() looked.
  bool HasNews() const { return closed() != engaged_ || held_.HasEnded() || saw_end_.load(std::memory_order_relaxed); }
  // Some work has ended: what a program waits for is seen at once, and all that is done is to be told as soon. Any thread.
  void SawEnd();

  // What ends a wait; what wakes the executor where it waits for a record, on any thread. Once, before the first record.
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
    bool will_go_on = false;  // it was busy, until all its work waited for the client
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
  // The end of what the word allows now: `now_ns` or before when it is closed.
  uint64_t OpenUntilNs(const Lane& lane, const GateWord& word, uint64_t now_ns) const;
  bool BrokerIsSilent(uint64_t now_ns) const;
  // The stream waits for the client, and it is not the turn of work behind that; `open`: there is a token.
  bool AwaitsClient(CUstream stream, bool open, uint64_t now_ns);
  Verdict Judge(Lane& lane, CUstream stream, uint64_t kind, uint64_t now_ns);
  bool MustStop(uint64_t now_ns);
  void Sleep(Lane& lane, Verdict verdict, uint32_t changes, uint64_t now_ns);
  // The gate is closed now, or free again.
  void Engage();
  void Disengage();
  void BeginSpan();
  // Asks the driver, if it is time; whether nothing works.
  bool AskIdle(uint64_t now_ns, bool wakes);
  // What is told of work is the executor's to tell again, after all of it had waited for the client.
  void GoOn();
  // One of these waits has ended: on its thread.
  void ClientAnswered(uint64_t now_ns);
  bool busy() const;
  uint64_t AskGapNs(uint64_t now_ns) const;

  const DriverTable& driver_;
  ThreadContexts& contexts_;
  BusyStreams& streams_;
  IdleWatch idle_;
  HeldStreams held_;
  const GatePages pages_;
  const GatePage* const page_;  // of zeros when there is none
  std::atomic<uint64_t> own_executed_{0};
  std::atomic<uint64_t>* const executed_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // by device number; null: a GPU that the page does not know
  std::unique_ptr<ReportPage::Row> own_row_;  // where there is no page
  ReportPage::Row* only_row_ = nullptr;       // of a session with one GPU
  StopPredicate stop_;
  std::function<void()> wake_;
  AdaptiveSpin spin_;      // for a token that is about to come
  AdaptiveSpin end_spin_;  // for the end of work that others wait for
  bool engaged_ = false;
  bool rests_ = false;            // all that is unfinished waited for the client when the driver was asked last
  uint64_t worked_since_ns_ = 0;  // the driver has not been seen idle since; 0: it is
  Lane* launching_ = nullptr;     // whose first work since then is a kernel that is being launched
  uint64_t asked_ns_ = 0;
  std::atomic<bool> saw_end_{false};
  uint64_t stop_asked_ns_ = 0;
  // Of the wait for the client behind which work waited last: since when it is, and when its last turn began.
  uint64_t client_since_ns_ = 0;
  uint64_t client_turn_ns_ = 0;
};

// A number for a kind of work, from what makes two pieces of it alike.
inline uint64_t WorkKind(std::initializer_list<uint64_t> parts) {
  uint64_t kind = 0xcbf29ce484222325;  // FNV-1a (Fowler, Noll, Vo) over words
  for (uint64_t part : parts) kind = (kind ^ part) * 0x100000001b3;
  return kind;
}

}  // namespace tessera
