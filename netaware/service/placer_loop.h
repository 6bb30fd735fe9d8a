// The one thread that decides, and what it says to the others: calls of gRPC and the store come to it as functions, and it speaks
// to whoever has registered.
//
//   PlacerLoop loop(options, signer, *store);
//   loop.Post([](PlacerCore& core, int64_t now_ms) { ... });         // any thread
//   loop.Post({PlacerWork::kAsk, "name:alice"}, [](PlacerCore& core, int64_t now_ms) { ... });
//
// What one holder wants done delays another's work by a slice for each turn at most. In each turn all of the placer's own work is
// done, then a slice of each holder's: what servers say, what those want who administer or have a grant, questions, and asks for
// GPUs. Of a holder whose jobs were not tried yet, asks wait (PlacerCore::TakesAsks()).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "netaware/service/event_log.h"
#include "netaware/service/placer_core.h"
#include "netaware/service/store_thread.h"
#include "protocol/base/mutex.h"

namespace tessera {

// Where orders to a node go. In the loop's thread.
class NodeEnd {
 public:
  virtual ~NodeEnd() = default;
  virtual void Send(const PlacerOrder& order) = 0;
  virtual void SendClock(int64_t now_ms) = 0;
  // Nothing was heard of it for long: its stream ends.
  virtual void EndSilent() = 0;
};
// Where a job's states go. In the loop's thread.
class JobEnd {
 public:
  virtual ~JobEnd() = default;
  virtual void Tell(const GrantView& view) = 0;
};

// What is wanted, in the order in which a turn does it.
enum class PlacerWork { kServer, kHas, kQuestion, kAsk };

class PlacerLoop : private PlacerCore::Outside {
 public:
  static constexpr int64_t kClockMs = 1'000;
  static constexpr int64_t kSilentMs = 15'000;
  static constexpr size_t kServerBytes = 1 << 20;  // of what is kept
  static constexpr size_t kGrantBytes = 8 << 10;
  // Of a holder's works of one kind, for a turn: so many, or so long, and one at least.
  static constexpr size_t kSliceWorks = 256;
  static constexpr uint64_t kSliceNs = 1'000'000;
  using Work = std::function<void(PlacerCore& core, int64_t now_ms)>;
  struct Origin {
    PlacerWork kind = PlacerWork::kQuestion;
    std::string holder{};  // who wants it; empty: it cannot be told

    friend auto operator<=>(const Origin&, const Origin&) = default;
  };

  // `store` outlives it, and is its own. Errors as of PlacerCore::Load().
  static Result<std::unique_ptr<PlacerLoop>> Start(PlacerCore::Options options, TicketSigner signer, Store& store);
  ~PlacerLoop() override { End(); }
  // Does what was posted, stores what is to be stored, and ends both threads. What is posted later is not done: whoever still
  // calls does no harm. Once or more, one thread.
  void End() EXCLUDES(mutex_);

  // The placer's own work. Any thread; in the order in which they come.
  void Post(Work work) EXCLUDES(mutex_);
  // A holder's. Any thread; those of one origin in the order in which they come.
  void Post(Origin origin, Work work) EXCLUDES(mutex_);

  // What happened. Any thread.
  EventLog& events() { return events_; }

  // Within the work: stores this, then says how it went, in the writer's thread.
  void Write(StoreTransaction transaction, StoreThread::Done then);

  // What the placer keeps for its servers and grants, at most: bytes, a second old. Any thread.
  size_t kept_bytes() const { return kept_bytes_; }

  // How often the store was written to. Any thread.
  uint64_t writes() { return writer_.writes(); }

  // Within the work: who hears of a server's orders and of a grant, until the pointer is gone.
  void Attach(const std::string& server, std::weak_ptr<NodeEnd> node, int64_t now_ms);
  void Heard(const std::string& server, int64_t now_ms);
  void Detach(const std::string& server);
  void Watch(const GrantId& grant, std::weak_ptr<JobEnd> job);
  void Unwatch(const GrantId& grant, const JobEnd* job);
  bool IsWatched(const GrantId& grant);
  // Within the work that ends this grant: calls `done` once, in the store's thread, when the store has it no more, or has failed
  // to forget it.
  void AfterForgotten(const GrantId& grant, std::function<void(bool stored)> done) {
    after_forgotten_.emplace(grant, std::move(done));
  }

 private:
  struct Attached {
    std::weak_ptr<NodeEnd> node;
    int64_t heard_ms = 0;
  };

  PlacerLoop(PlacerCore::Options options, TicketSigner signer, Store& store);
  void Run() EXCLUDES(mutex_);
  // A slice of each holder's work; `all`: all of it.
  void DoSlices(bool all);
  // Once a second: clocks for nodes, and lives of jobs that listen.
  void Tend(int64_t now_ms);
  int64_t NowMs() const;

  void Send(const std::string& server, const PlacerOrder& order) override;
  void Tell(const GrantView& view) override;
  void Keep(StoreTransaction transaction, std::optional<GrantId> grant) override;

  const int64_t offset_ms_;  // of the placer's clock to CLOCK_MONOTONIC: jumps of the wall clock change nothing
  StoreThread writer_;
  EventLog events_;
  PlacerCore core_;
  std::map<std::string, Attached> nodes_;
  std::multimap<GrantId, std::weak_ptr<JobEnd>> jobs_;
  std::map<Origin, std::deque<Work>> queues_;  // none is empty
  bool has_more_ = false;                      // in the queues, beyond the slices of this turn
  int64_t clock_ms_ = 0;
  std::atomic<size_t> kept_bytes_ = 0;
  std::multimap<GrantId, std::function<void(bool stored)>> after_forgotten_;

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Work> work_ GUARDED_BY(mutex_);
  std::vector<std::pair<Origin, Work>> posted_ GUARDED_BY(mutex_);
  bool ends_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tessera
