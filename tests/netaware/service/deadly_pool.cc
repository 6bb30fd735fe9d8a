#include "tests/netaware/service/deadly_pool.h"

#include "protocol/ticket/ticket_keys.h"

namespace tessera {
namespace {

using State = PoolJob::State;

std::string NameOf(const StoreTransaction& transaction) {
  std::string name;
  for (const StoreChange& change : transaction.changes) name += (change.value ? "set " : "remove ") + change.key + " ";
  return name;
}

std::vector<PlacedPart> WithoutTickets(std::vector<PlacedPart> parts) {
  for (PlacedPart& part : parts) part.ticket.clear();
  return parts;
}

}  // namespace

void DeadlyPool::Start() {
  Result<TicketSigner> signer = TicketSigner::FromPem(key_);
  core_ = std::make_unique<PlacerCore>(PlacerCore::Options{.cluster = "c"}, std::move(*signer), ++epoch_, *this);
  const Status loaded = core_->Load(disk_->Range(""), now_ms_);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
}

void DeadlyPool::Die(bool stored) {
  ++deaths_;
  if (stored) disk_->Commit({&waiting_.front().first, 1});
  waiting_.clear();
  // Its messages may be under way still, or never have left.
  for (const auto& node : nodes_) {
    node->Read(Below(4), now_ms_);
    node->Lose();
  }
  HearAll(5);
  told_.clear();
  for (auto& [id, job] : jobs_) job.asked = job.released = false;
  // It is away for a moment, or for longer than holds last.
  now_ms_ += Below(100) == 0 ? 61'000 : static_cast<int64_t>(Below(200));
  for (const auto& node : nodes_) node->Turn(now_ms_);
  Start();
}

void DeadlyPool::Write() {
  while (!waiting_.empty()) {
    const StoreTransaction& next = waiting_.front().first;
    int& deaths = died_at_[NameOf(next)];
    if (deaths < kDeaths) return Die(deaths++ == 1);
    const std::vector<StoreResult> results = disk_->Commit({&next, 1});
    ASSERT_EQ(results[0].outcome, StoreResult::Outcome::kDone);
    core_->Kept(next.changes, true);
    if (waiting_.front().second) core_->Stored(*waiting_.front().second, true, now_ms_);
    waiting_.pop_front();
  }
  // Nodes learn of a release that was stored.
  for (auto& [id, job] : jobs_) {
    if (job.released) job.state = State::kGone;
  }
}

void DeadlyPool::Meet(PoolNode& node) {
  if (!node.joined()) {
    if (Below(4) != 0) return;
    const JoiningNode joins = node.Joining(now_ms_);
    node.Welcome(*core_, now_ms_);
    const Status joined = core_->Join(joins, now_ms_);
    ASSERT_TRUE(joined.ok()) << joined.message();
    return;
  }
  if (Below(200) == 0) {
    core_->Leave(node.id());
    return Below(2) == 0 ? node.Lose() : node.Open(now_ms_);
  }
  // Now and then it is slower than the placer waits.
  if (Below(400) == 0) node.Rest(now_ms_ + static_cast<int64_t>(Below(7'000)));
  if (node.rests(now_ms_)) return;
  if (Below(20) == 0) core_->Beat(node.id(), node.State(now_ms_), now_ms_);
  node.Read(Below(8), now_ms_);
  for (const auto& [number, done] : node.TakeAnswers()) core_->Answered(node.id(), number, done, now_ms_);
}

void DeadlyPool::Hear(PoolJob& job, const GrantView& view) {
  if (view.state != Grant::State::kGranted || job.state == State::kHungUp) return;
  ASSERT_NE(job.state, State::kGone) << "a grant that was given back is given again";
  const std::vector<PlacedPart> parts = WithoutTickets(view.grant.parts);
  ASSERT_FALSE(parts.empty());
  if (!job.parts.empty()) {
    ASSERT_EQ(job.parts, parts) << "a grant became another one";
  }
  if (job.state != State::kAsks) return;
  ++granted_;
  job.parts = parts;
  job.state = State::kHas;
  job.ends_ms = now_ms_ + static_cast<int64_t>(Below(300));
  job.renew_ms = now_ms_ + 10'000;
}

void DeadlyPool::HearAll(size_t of_ten) {
  for (const GrantView& view : std::exchange(told_, {})) {
    const auto job = jobs_.find(view.grant.ask.id);
    if (job != jobs_.end() && Below(10) < of_ten) Hear(job->second, view);
  }
}

void DeadlyPool::Live(PoolJob& job) {
  if (job.state == State::kAsks) {
    if (job.asked) {
      core_->Lives(job.id, now_ms_);
      if (Below(500) == 0) {
        core_->Withdraw(job.id);
        job.state = State::kHungUp;
      }
      return;
    }
    Result<GrantId> placed = core_->Place(job.ask, now_ms_);
    if (!placed.ok()) {
      ASSERT_EQ(placed.status().code(), StatusCode::kUnavailable) << placed.status().message();
      return;
    }
    ASSERT_EQ(*placed, job.id);
    job.asked = true;
    if (const std::optional<GrantView> view = core_->View(job.id); view && view->state == Grant::State::kGranted)
      Hear(job, *view);
  } else if (job.state == State::kHas) {
    if (job.renew_ms <= now_ms_ || Below(50) == 0) {
      const Status renewed = core_->Renew(job.id, now_ms_);
      ASSERT_TRUE(renewed.ok()) << renewed.message();
      job.renew_ms = now_ms_ + 10'000;
    }
    if (job.ends_ms <= now_ms_) job.state = State::kEnds;
  } else if (job.state == State::kEnds && !job.released) {
    const Status released = core_->Release(job.id);
    job.released = released.ok();
    if (!released.ok()) {
      ASSERT_EQ(released.code(), StatusCode::kNotFound);
      job.state = State::kGone;
    }
  }
}

void DeadlyPool::Step(int* new_jobs) {
  now_ms_ += 1 + static_cast<int64_t>(Below(20));
  const auto lives = std::ranges::count_if(jobs_, [](const auto& each) { return each.second.state < State::kGone; });
  if (*new_jobs > 0 && static_cast<size_t>(lives) < kJobsMax && Below(2) == 0) {
    --*new_jobs;
    PoolJob job;
    job.ask = {.holder = "name:alice", .request_id = std::to_string(++number_)};
    job.ask.wish.share = kWholeShare / 4 * static_cast<uint32_t>(1 + Below(4));
    job.ask.wish.gpus = Below(4) == 0 ? 3 : 1;
    job.id = GrantOf("c", job.ask.holder, job.ask.request_id);
    ASSERT_TRUE(jobs_.emplace(job.id, job).second) << "a grant's id twice";
  }
  for (auto& [id, job] : jobs_) Live(job);
  for (const auto& node : nodes_) Meet(*node);
  core_->Turn(now_ms_);
  if (Below(2) == 0) HearAll(10);
  Write();
}

void DeadlyPool::Check() const {
  for (const auto& node : nodes_) node->Check();
  std::map<std::string, uint64_t> shares;  // by the jobs' own answers
  for (const auto& [id, job] : jobs_) {
    const std::optional<GrantView> view = core_->View(id);
    const bool is_granted = view && view->state == Grant::State::kGranted;
    if (job.state == State::kHas) {
      ASSERT_TRUE(is_granted) << "a grant that its job was told of is lost: " << GrantText(id);
      ASSERT_EQ(WithoutTickets(view->grant.parts), job.parts);
    }
    if (job.state == State::kGone) {
      ASSERT_FALSE(is_granted) << "a grant that was given back is there: " << GrantText(id);
    }
    for (const PlacedPart& part : job.parts) {
      if (job.state == State::kHas) {
        for (const PlacedGpu& gpu : part.gpus) ASSERT_LE(shares[gpu.uuid] += job.ask.wish.share, kWholeShare) << gpu.uuid;
      }
      for (const auto& node : nodes_) {
        if (node->id() != part.server || !node->joined() || !node->has_read_all()) continue;
        if (job.state == State::kHas) {
          ASSERT_TRUE(node->Has(id)) << node->id() << " has lost " << GrantText(id);
        }
        if (job.state == State::kGone) {
          ASSERT_FALSE(node->Has(id)) << node->id() << " has " << GrantText(id) << " still";
        }
      }
    }
  }
}

bool DeadlyPool::IsIdle() const {
  const auto is_over = [](const auto& each) { return each.second.state >= State::kGone; };
  const auto is_quiet = [](const auto& node) { return node->joined() && node->has_read_all() && node->vgpus() == 0; };
  return std::ranges::all_of(jobs_, is_over) && std::ranges::all_of(nodes_, is_quiet) && waiting_.empty() &&
         core_->ViewAll().empty();
}

void DeadlyPool::CheckEmpty() const {
  for (const auto& [id, server] : core_->pool().servers()) {
    for (const Inventory::Gpu& gpu : server.gpus) EXPECT_EQ(gpu.granted, GpuAmount{}) << id;
  }
  EXPECT_EQ(core_->pool().servers().size(), nodes_.size());
  EXPECT_TRUE(disk_->Range(kPlacedKeys).empty());
  for (const auto& [id, job] : jobs_) {
    for (const auto& node : nodes_) EXPECT_FALSE(node->Has(id)) << node->id() << " has " << GrantText(id) << " still";
  }
}

}  // namespace tessera
