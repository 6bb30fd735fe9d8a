#include "netaware/service/placer_loop.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

int64_t SteadyMs() { return static_cast<int64_t>(MonotonicNs()) / kNsOfMs; }

int64_t WallMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Result<std::unique_ptr<PlacerLoop>> PlacerLoop::Start(PlacerCore::Options options, TicketSigner signer, Store& store) {
  const std::vector<StoreEntry> kept = store.Range("");
  std::unique_ptr<PlacerLoop> loop(new PlacerLoop(std::move(options), std::move(signer), store));
  RETURN_IF_ERROR(loop->core_.Load(kept, loop->NowMs()));
  loop->core_.Note({.actor = std::string(AuditRecord::kPlacer),
                    .action = "start",
                    .object = loop->core_.options().cluster,
                    .text = "epoch " + std::to_string(loop->core_.epoch())},
                   loop->NowMs());
  loop->core_.StoreNotes(loop->NowMs());
  loop->thread_ = std::thread([loop = loop.get()] { loop->Run(); });
  return loop;
}

PlacerLoop::PlacerLoop(PlacerCore::Options options, TicketSigner signer, Store& store)
    : offset_ms_(WallMs() - SteadyMs()),
      writer_(store),
      events_(writer_),
      core_(std::move(options), std::move(signer), store.epoch(), *this) {}

void PlacerLoop::End() {
  {
    MutexLock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  writer_.End();
}

int64_t PlacerLoop::NowMs() const { return SteadyMs() + offset_ms_; }

void PlacerLoop::Post(Work work) {
  {
    MutexLock lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void PlacerLoop::Post(Origin origin, Work work) {
  {
    MutexLock lock(mutex_);
    posted_.emplace_back(std::move(origin), std::move(work));
  }
  changed_.notify_one();
}

void PlacerLoop::DoSlices(bool all) {
  has_more_ = false;
  for (auto queue = queues_.begin(); queue != queues_.end();) {
    auto& [origin, works] = *queue;
    const uint64_t until_ns = MonotonicNs() + kSliceNs;
    for (size_t done = 0; !works.empty(); ++done) {
      if (!all && origin.kind == PlacerWork::kAsk && !core_.TakesAsks(origin.holder)) break;
      if (!all && done != 0 && (done == kSliceWorks || MonotonicNs() >= until_ns)) {
        has_more_ = true;
        break;
      }
      const Work work = std::move(works.front());
      works.pop_front();
      work(core_, NowMs());
    }
    queue = works.empty() ? queues_.erase(queue) : std::next(queue);
  }
}

void PlacerLoop::Run() {
  for (;;) {
    const int64_t until_ms = std::min(core_.NextMs(), clock_ms_ + kClockMs);
    std::vector<Work> work;
    std::vector<std::pair<Origin, Work>> posted;
    bool ends = false;
    {
      MutexLock lock(mutex_);
      while (work_.empty() && posted_.empty() && !has_more_ && !ends_ && NowMs() < until_ms)
        changed_.wait_for(mutex_, std::chrono::milliseconds(std::min<int64_t>(until_ms - NowMs(), kClockMs)));
      ends = ends_;
      if (ends && work_.empty() && posted_.empty() && queues_.empty()) break;
      work = std::exchange(work_, {});
      posted = std::exchange(posted_, {});
    }
    for (auto& [origin, each] : posted) queues_[std::move(origin)].push_back(std::move(each));
    for (const Work& each : work) each(core_, NowMs());
    DoSlices(ends);
    const int64_t now_ms = NowMs();
    core_.Turn(now_ms);
    // The store never had these grants.
    for (auto& [grant, done] : std::exchange(after_forgotten_, {})) writer_.Then([done = std::move(done)] { done(true); });
    if (now_ms - clock_ms_ >= kClockMs) Tend(now_ms);
  }
  core_.StoreNotes(std::numeric_limits<int64_t>::max());
}

void PlacerLoop::Tend(int64_t now_ms) {
  clock_ms_ = now_ms;
  core_.StoreNotes(now_ms);
  kept_bytes_ = nodes_.size() * kServerBytes + core_.grants() * kGrantBytes;
  for (const auto& [server, attached] : nodes_) {
    const std::shared_ptr<NodeEnd> node = attached.node.lock();
    if (node == nullptr) continue;
    if (now_ms - attached.heard_ms < kSilentMs) {
      node->SendClock(now_ms);
      continue;
    }
    LogWarning("server '{}' has said nothing for {} s", Printable(server), kSilentMs / 1'000);
    node->EndSilent();
  }
  std::erase_if(jobs_, [](const auto& each) { return each.second.expired(); });
  for (const auto& [grant, job] : jobs_) core_.Lives(grant, now_ms);
}

void PlacerLoop::Attach(const std::string& server, std::weak_ptr<NodeEnd> node, int64_t now_ms) {
  nodes_[server] = {std::move(node), now_ms};
}

void PlacerLoop::Heard(const std::string& server, int64_t now_ms) {
  if (const auto node = nodes_.find(server); node != nodes_.end()) node->second.heard_ms = now_ms;
}

void PlacerLoop::Detach(const std::string& server) { nodes_.erase(server); }

void PlacerLoop::Watch(const GrantId& grant, std::weak_ptr<JobEnd> job) { jobs_.emplace(grant, std::move(job)); }

void PlacerLoop::Unwatch(const GrantId& grant, const JobEnd* job) {
  const auto [begin, end] = jobs_.equal_range(grant);
  const auto found = std::find_if(begin, end, [&](const auto& each) { return each.second.lock().get() == job; });
  if (found != end) jobs_.erase(found);
}

bool PlacerLoop::IsWatched(const GrantId& grant) {
  const auto [begin, end] = jobs_.equal_range(grant);
  return std::any_of(begin, end, [](const auto& each) { return !each.second.expired(); });
}

void PlacerLoop::Send(const std::string& server, const PlacerOrder& order) {
  const auto node = nodes_.find(server);
  if (node == nodes_.end()) return;  // its ledger is compared when it joins again
  if (const std::shared_ptr<NodeEnd> end = node->second.node.lock()) end->Send(order);
}

void PlacerLoop::Tell(const GrantView& view) {
  const auto [begin, end] = jobs_.equal_range(view.grant.ask.id);
  for (auto job = begin; job != end; ++job) {
    if (const std::shared_ptr<JobEnd> there = job->second.lock()) there->Tell(view);
  }
}

void PlacerLoop::Keep(StoreTransaction transaction, std::optional<GrantId> grant) {
  std::vector<std::function<void(bool)>> after;
  for (auto each = after_forgotten_.begin(); each != after_forgotten_.end();) {
    const StoreChange forgotten{KeyOfPlaced(each->first), std::nullopt};
    const bool is_here = std::ranges::find(transaction.changes, forgotten) != transaction.changes.end();
    if (is_here) after.push_back(std::move(each->second));
    each = is_here ? after_forgotten_.erase(each) : std::next(each);
  }
  std::vector<StoreChange> changes;
  for (const StoreChange& change : transaction.changes) {
    changes.push_back({change.key, std::nullopt});
    if (change.value) changes.back().value.emplace();
  }
  Write(std::move(transaction), [this, grant, changes = std::move(changes), after = std::move(after)](const StoreResult& result) {
    const bool done = result.outcome == StoreResult::Outcome::kDone;
    // Posted before the answers, so that a caller who is answered and asks again sees the result.
    if (!changes.empty()) {
      Post([grant, changes, done](PlacerCore& core, int64_t now_ms) {
        core.Kept(changes, done);
        if (grant) core.Stored(*grant, done, now_ms);
      });
    }
    for (const auto& each : after) each(done);
  });
}

void PlacerLoop::Write(StoreTransaction transaction, StoreThread::Done then) {
  std::vector<StoreRecord> records = transaction.records;
  writer_.Commit(std::move(transaction), [this, then = std::move(then), records = std::move(records)](const StoreResult& result) {
    const bool done = result.outcome == StoreResult::Outcome::kDone;
    if (!done) LogError("the store has not kept what it was given: {}", result.reason);
    if (!records.empty() && done) events_.Stored(result.record, records);
    if (!records.empty() && !done) Post([records](PlacerCore& core, int64_t) { core.NotesNotStored(records); });
    then(result);
  });
}

}  // namespace tessera
