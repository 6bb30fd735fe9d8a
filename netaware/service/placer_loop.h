// The one thread that runs PlacerCore. Calls of gRPC and the store come to it as functions. It sends orders and states to the
// registered nodes and jobs.
//
//   PlacerLoop loop(options, signer, *store);
//   loop.Post([](PlacerCore& core, int64_t now_ms) { ... });         // any thread
//   loop.Post({PlacerWork::kAsk, "name:alice"}, [](PlacerCore& core, int64_t now_ms) { ... });
//
// The work of one holder delays another's by at most a slice in each turn. A turn does all of the placer's own work, then a
// slice of each holder's: messages of servers, calls of administrators and of holders with a grant, questions, and asks for
// GPUs. The asks of a holder wait while too many of his jobs are untried (PlacerCore::TakesAsks()).
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

// Receives the orders to a node, in the loop's thread.
class NodeEnd {
 public:
  virtual ~NodeEnd() = default;
  virtual void Send(const PlacerOrder& order) = 0;
  virtual void SendClock(int64_t now_ms) = 0;
  // The node was silent for long: ends its stream.
  virtual void EndSilent() = 0;
};
// Receives a job's states, in the loop's thread.
class JobEnd {
 public:
  virtual ~JobEnd() = default;
  virtual void Tell(const GrantView& view) = 0;
};

// The kinds of work, in the order in which a turn does them.
enum class PlacerWork { kServer, kHas, kQuestion, kAsk };

class PlacerLoop : private PlacerCore::Outside {
 public:
  static constexpr int64_t kClockMs = 1'000;
  static constexpr int64_t kSilentMs = 15'000;
  static constexpr size_t kServerBytes = 1 << 20;  // of memory for each server
  static constexpr size_t kGrantBytes = 8 << 10;
  // A turn does so much of a holder's work of one kind: this number, or for this time, and one at least.
  static constexpr size_t kSliceWorks = 256;
  static constexpr uint64_t kSliceNs = 1'000'000;
  using Work = std::function<void(PlacerCore& core, int64_t now_ms)>;
  struct Origin {
    PlacerWork kind = PlacerWork::kQuestion;
    std::string holder{};  // who asks for it; empty: not known

    friend auto operator<=>(const Origin&, const Origin&) = default;
  };

  // `store` outlives the loop, and nothing else uses it. Errors: those of PlacerCore::Load().
  static Result<std::unique_ptr<PlacerLoop>> Start(PlacerCore::Options options, TicketSigner signer, Store& store);
  ~PlacerLoop() override { End(); }
  // Does the posted work, stores all changes, and ends both threads. Work that is posted later is not done, and does no harm.
  // May be called more than once, from one thread.
  void End() EXCLUDES(mutex_);

  // Posts the placer's own work. Any thread; work is done in order of arrival.
  void Post(Work work) EXCLUDES(mutex_);
  // Posts a holder's work. Any thread; work of one origin is done in order of arrival.
  void Post(Origin origin, Work work) EXCLUDES(mutex_);

  // The stored events. Any thread.
  EventLog& events() { return events_; }

  // Called within posted work: stores `transaction`, then calls `then` with the result, in the writer's thread.
  void Write(StoreTransaction transaction, StoreThread::Done then);

  // An upper bound of the bytes kept for servers and grants, up to a second old. Any thread.
  size_t kept_bytes() const { return kept_bytes_; }

  // The number of writes to the store. Any thread.
  uint64_t writes() { return writer_.writes(); }

  // Called within posted work: the receivers of a server's orders and of a grant's states, until the pointer expires.
  void Attach(const std::string& server, std::weak_ptr<NodeEnd> node, int64_t now_ms);
  void Heard(const std::string& server, int64_t now_ms);
  void Detach(const std::string& server);
  void Watch(const GrantId& grant, std::weak_ptr<JobEnd> job);
  void Unwatch(const GrantId& grant, const JobEnd* job);
  bool IsWatched(const GrantId& grant);
  // Called within the work that ends this grant: calls `done` once, in the store's thread, when the store has removed the grant
  // or failed to remove it.
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
  // Does a slice of each holder's work; `all`: all of it.
  void DoSlices(bool all);
  // Once a second: stores waiting records, sends the clock to nodes, and extends the leases of watched jobs.
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
