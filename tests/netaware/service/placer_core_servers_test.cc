// Cordons and drains: an administrator's order about a server holds for all that comes later, and after a restart.
#include <gtest/gtest.h>

#include "netaware/service/placer_core.h"

namespace tessera {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
using State = Grant::State;

JoiningNode OneGpuNode(int machine) {
  JoiningNode node;
  node.server.id = "gpu" + std::to_string(machine);
  node.server.gpus = {{.uuid = "GPU-0000000" + std::to_string(machine) + "-0000-0000-0000-000000000000",
                       .model = "H100",
                       .all = {kWholeShare, 80 * kGiB},
                       .context_bytes = kGiB / 2}};
  node.state.others.resize(1);
  return node;
}

// Servers of a GPU each that obey, if `obey`, and a store that keeps.
class Pool : public PlacerCore::Outside {
 public:
  Pool() { Start(); }
  void Start() {
    core = std::make_unique<PlacerCore>(PlacerCore::Options{.cluster = "c", .ticket_ms = 600'000},
                                        std::move(TicketSigner::Make()).value(), ++epoch, *this);
    std::vector<StoreEntry> entries;
    for (const auto& [key, value] : kept) entries.push_back({key, value, 1});
    ASSERT_TRUE(core->Load(entries, now_ms).ok());
  }
  void Send(const std::string& server, const PlacerOrder& order) override { orders.push_back({server, order}); }
  void Tell(const GrantView& view) override { told[view.grant.ask.id] = view; }
  void Keep(StoreTransaction transaction, std::optional<GrantId> grant) override {
    for (const StoreChange& change : transaction.changes) {
      if (change.value) {
        kept[change.key] = *change.value;
      } else {
        kept.erase(change.key);
      }
    }
    for (const StoreRecord& record : transaction.records) {
      const AuditRecord read = std::move(ReadAudit(record)).value();
      noted += read.actor + " " + read.action + " " + (read.holder.empty() ? read.object + ": " + read.text : read.text) + "\n";
    }
    if (grant) stored.push_back(*grant);
  }
  void Keep(Result<StoreTransaction> transaction) {
    ASSERT_TRUE(transaction.ok()) << transaction.status().message();
    Keep(std::move(*transaction), std::nullopt);
    Settle();
  }
  void Settle() {
    for (int i = 0; i < 10; ++i) {
      core->Turn(now_ms);
      for (const GrantId& grant : std::exchange(stored, {})) core->Stored(grant, true, now_ms);
      for (const auto& [server, order] : std::exchange(orders, {})) {
        if (obey && order.kind == PlacerOrder::Kind::kHold) core->Answered(server, order.number, true, now_ms);
      }
    }
  }
  void Join(int machine, std::vector<NodeGrantState> grants = {}) {
    JoiningNode node = OneGpuNode(machine);
    node.state.grants = std::move(grants);
    ASSERT_TRUE(core->Join(std::move(node), now_ms).ok());
  }
  GrantId Ask(const std::string& request) {
    Result<GrantId> id = core->Place({.holder = "name:alice", .request_id = request}, now_ms);
    EXPECT_TRUE(id.ok());
    Settle();
    return *id;
  }
  // The server of a grant; else its state's reason.
  std::string Where(const GrantId& id) {
    const auto view = core->View(id);
    if (!view) return "has ended";
    return view->grant.parts.empty() ? view->reason : view->grant.parts[0].server;
  }

  uint64_t epoch = 0;
  int64_t now_ms = 1'000'000;
  bool obey = true;
  std::map<std::string, std::string> kept;
  std::string noted;  // the remembered reason
  std::map<GrantId, GrantView> told;
  std::vector<std::pair<std::string, PlacerOrder>> orders;
  std::vector<GrantId> stored;
  std::unique_ptr<PlacerCore> core;
};

TEST(PoolServers, ACordonedServerIsOfferedForNothingNewUntilItIsOfferedAgain) {
  Pool pool;
  pool.Join(1);
  const GrantId runs = pool.Ask("runs");
  pool.Keep(pool.core->Cordon("gpu1", "its fans are changed", "name:boss", pool.now_ms));
  pool.Join(2);
  ASSERT_TRUE(pool.core->Release(runs).ok());  // which leaves gpu1 empty
  EXPECT_EQ(pool.Where(pool.Ask("second")), "gpu2");
  const GrantId waits = pool.Ask("third");
  EXPECT_NE(pool.Where(waits).find("1 of a server that is cordoned: its fans are changed"), std::string::npos)
      << pool.Where(waits);
  EXPECT_EQ(pool.core->CordonOf("gpu1")->by, "name:boss");
  pool.Keep(pool.core->Uncordon("gpu1", "uid:0", pool.now_ms));
  EXPECT_EQ(pool.Where(waits), "gpu1");
  EXPECT_EQ(pool.core->CordonOf("gpu1"), nullptr);
}

TEST(PoolServers, ACordonOutlivesThePlacerAndTheServersReturn) {
  Pool pool;
  pool.Join(1);
  const GrantId runs = pool.Ask("runs");
  pool.Keep(pool.core->Cordon("gpu1", "why", "name:boss", pool.now_ms));
  EXPECT_EQ(pool.Where(runs), "gpu1");  // goes on
  pool.core->Leave("gpu1", pool.now_ms);
  pool.Join(1, {{runs, false, 3}});
  EXPECT_EQ(pool.core->SessionsOf("gpu1", runs), 3U);
  for (int restart = 0; restart < 2; ++restart) {
    pool.Start();
    pool.Join(1, {{runs, false, 3}});  // which writes the server's record again
    ASSERT_NE(pool.core->CordonOf("gpu1"), nullptr);
    EXPECT_EQ(pool.core->pool().servers().at("gpu1").NotOffered(pool.now_ms * 1'000'000), "is cordoned: why");
    EXPECT_EQ(pool.Where(runs), "gpu1");
  }
  pool.Keep(pool.core->Uncordon("gpu1", "uid:0", pool.now_ms));
  pool.Start();
  EXPECT_EQ(pool.core->CordonOf("gpu1"), nullptr);
}

TEST(PoolServers, AGrantThatAServerIsAskedForRightNowGoesElsewhere) {
  Pool pool;
  pool.Join(1);
  pool.Join(2);
  pool.obey = false;
  const GrantId id = pool.Ask("r");
  pool.obey = true;
  pool.Keep(pool.core->Cordon("gpu1", "", "name:boss", pool.now_ms));
  EXPECT_EQ(pool.Where(id), "gpu2");
}

TEST(PoolServers, ADrainEndsWhatIsLeftAtItsTimeAndSaysWhy) {
  Pool pool;
  pool.Join(1);
  pool.Join(2);
  const GrantId first = pool.Ask("first"), other = pool.Ask("other");
  ASSERT_EQ(pool.Where(first), "gpu1");
  const PlacerCore::DrainAsk ask{.server = "gpu1", .reason = "repaired at noon", .by = "name:boss", .within_ms = 10'000};
  pool.Keep(pool.core->Drain(ask, pool.now_ms));
  ASSERT_EQ(pool.core->GrantsOf("gpu1").size(), 1U);
  EXPECT_EQ(pool.core->GrantsOf("gpu1")[0].grant.ask.id, first);
  pool.now_ms += 9'999;
  pool.Settle();
  EXPECT_EQ(pool.Where(first), "gpu1");
  EXPECT_LE(pool.core->NextMs(), pool.now_ms + 1);
  pool.now_ms += 1;
  pool.Settle();
  EXPECT_EQ(pool.told.at(first).state, State::kRevoked);
  EXPECT_EQ(pool.told.at(first).reason, "by name:boss: repaired at noon");
  EXPECT_EQ(pool.Where(other), "gpu2");
  EXPECT_GT(pool.core->NextMs(), pool.now_ms);  // nothing is due any more
  // It is not offered. If no reason was given, the job's message names the server.
  EXPECT_NE(pool.Where(pool.Ask("second")), "gpu1");
  pool.Keep(pool.core->Drain({.server = "gpu2", .by = "uid:0", .within_ms = 0}, pool.now_ms));
  EXPECT_EQ(pool.told.at(other).reason, "by uid:0: server 'gpu2' is drained");
}

TEST(PoolServers, ADrainWithoutATimeEndsNothingAndUncordonEndsADrain) {
  Pool pool;
  pool.Join(1);
  const GrantId id = pool.Ask("r");
  const auto lives = [&] { pool.core->Lives(id, pool.now_ms); };
  pool.Keep(pool.core->Drain({.server = "gpu1", .by = "uid:0"}, pool.now_ms));
  pool.now_ms += 50'000;
  lives();
  pool.Settle();
  EXPECT_EQ(pool.Where(id), "gpu1");
  pool.Keep(pool.core->Drain({.server = "gpu1", .by = "uid:0", .within_ms = 1'000}, pool.now_ms));
  // Another reason is not the drain's end.
  pool.Keep(pool.core->Cordon("gpu1", "y", "uid:1", pool.now_ms));
  EXPECT_TRUE(pool.core->CordonOf("gpu1")->drains);
  EXPECT_EQ(pool.core->CordonOf("gpu1")->ends_ms, pool.now_ms + 1'000);
  pool.Keep(pool.core->Uncordon("gpu1", "uid:0", pool.now_ms));
  pool.now_ms += 2'000;
  pool.Settle();
  EXPECT_EQ(pool.Where(id), "gpu1");
}

TEST(PoolServers, ADrainsTimeOutlivesThePlacerAndJobsHaveTimeToComeBack) {
  for (const int64_t away_ms : {1'000, 30'000}) {
    Pool pool;
    pool.Join(1);
    const GrantId id = pool.Ask("r");
    pool.Keep(pool.core->Drain({.server = "gpu1", .reason = "why", .by = "uid:0", .within_ms = 10'000}, pool.now_ms));
    const int64_t ends_ms = pool.now_ms + 10'000;
    pool.now_ms += away_ms;
    pool.Start();
    const int64_t due_ms = std::max(ends_ms, pool.now_ms + PlacerCore::kReturnMs);
    pool.now_ms = due_ms - 1;
    pool.Settle();
    EXPECT_EQ(pool.Where(id), "gpu1") << away_ms;
    pool.now_ms = due_ms;
    pool.Settle();
    EXPECT_EQ(pool.told.at(id).state, State::kRevoked) << away_ms;
    EXPECT_FALSE(pool.kept.contains(KeyOfPlaced(id)));
  }
}

TEST(PoolServers, WhatCannotBeIsRefusedAndNothingChanges) {
  Pool pool;
  EXPECT_EQ(pool.core->Uncordon("gpu7", "uid:0", pool.now_ms).status().message(),
            "there is no server 'gpu7' in the pool: it has none");
  pool.Join(1);
  for (const Status& status :
       {pool.core->Cordon("gpu7", "", "uid:0", pool.now_ms).status(), pool.core->Uncordon("gpu7", "uid:0", pool.now_ms).status(),
        pool.core->Drain({.server = "gpu7"}, pool.now_ms).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    EXPECT_EQ(status.message(), "there is no server 'gpu7' in the pool: the nearest name is 'gpu1'");
  }
  const std::string longest(ServerCordon::kReasonBytesMax, 'x');
  for (const std::string& reason : {longest + "x", std::string("a\nb")}) {
    EXPECT_EQ(pool.core->Cordon("gpu1", reason, "uid:0", pool.now_ms).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(pool.core->Drain({.server = "gpu1", .reason = reason}, pool.now_ms).status().code(), StatusCode::kInvalidArgument);
  }
  for (const int64_t within_ms : {int64_t{-1}, PlacerCore::kDrainMsMax + 1}) {
    EXPECT_EQ(pool.core->Drain({.server = "gpu1", .within_ms = within_ms}, pool.now_ms).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(pool.core->CordonOf("gpu1"), nullptr);
  EXPECT_TRUE(pool.core->Cordon("gpu1", longest, "uid:0", pool.now_ms).ok());
}

TEST(PoolServers, ARemovedServerIsForgottenWithItsCordonAndNobodyWaitsForIt) {
  Pool pool;
  pool.Join(1);
  pool.Join(2);
  pool.Keep(pool.core->Cordon("gpu2", "why", "name:boss", pool.now_ms));
  const GrantId there = pool.Ask("there");
  ASSERT_EQ(pool.Where(there), "gpu1");
  pool.core->Leave("gpu1", pool.now_ms);
  pool.core->Leave("gpu2", pool.now_ms);
  Result<GrantId> waits = pool.core->Place({.holder = "name:alice", .request_id = "three", .wish = {.gpus = 3}}, pool.now_ms);
  ASSERT_TRUE(waits.ok());
  pool.Settle();
  EXPECT_EQ(pool.core->Remove("gpu1", "uid:0", pool.now_ms).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(pool.Where(there), "gpu1");
  pool.Keep(pool.core->Remove("gpu2", "uid:0", pool.now_ms));
  EXPECT_TRUE(pool.noted.ends_with("\nuid:0 remove gpu2: \n")) << pool.noted;
  EXPECT_EQ(pool.core->Remove("gpu2", "uid:0", pool.now_ms).status().code(), StatusCode::kNotFound);
  // gpu1 may bring the missing part, until it is removed too.
  EXPECT_EQ(pool.core->View(*waits)->state, State::kWaiting);
  pool.Keep(pool.core->Drain({.server = "gpu1", .by = "uid:0", .within_ms = 0}, pool.now_ms));
  pool.now_ms += PlacerCore::kReturnMs;
  pool.Settle();
  pool.Start();
  pool.Keep(pool.core->Remove("gpu1", "uid:0", pool.now_ms));
  pool.Start();
  EXPECT_TRUE(pool.core->pool().servers().empty());
  pool.Join(2);
  EXPECT_EQ(pool.core->CordonOf("gpu2"), nullptr);
  EXPECT_EQ(pool.Where(pool.Ask("next")), "gpu2");
}

TEST(PoolServers, WhatWasDoneIsNotedWithItsDoer) {
  Pool pool;
  pool.Join(1);
  (void)pool.Ask("r");
  pool.noted.clear();
  pool.Keep(pool.core->Cordon("gpu1", "why", "name:boss", pool.now_ms));
  pool.Keep(pool.core->Uncordon("gpu1", "name:wall", pool.now_ms));
  EXPECT_EQ(pool.noted, "name:boss cordon gpu1: why\nname:wall uncordon gpu1: \n");
  pool.now_ms += PlacerCore::kReturnMs;
  pool.noted.clear();
  pool.Keep(pool.core->Drain({.server = "gpu1", .reason = "x", .by = "uid:0", .within_ms = 0}, pool.now_ms));
  EXPECT_EQ(pool.noted, "uid:0 drain gpu1: x; what is left ends in 0 s\nuid:0 revoke by uid:0: x\n");
}

TEST(PoolServers, APlanHoldsNothing) {
  Pool pool;
  pool.Join(1);
  for (int i = 0; i < 2; ++i) {
    const Placement found = pool.core->Plan({.share = 600'000}, "name:alice", pool.now_ms);
    ASSERT_EQ(found.outcome, Placement::Outcome::kPlaced);
    EXPECT_EQ(found.parts[0].server, "gpu1");
  }
  (void)pool.Ask("r");
  EXPECT_EQ(pool.core->Plan({.share = 600'000}, "name:alice", pool.now_ms).outcome, Placement::Outcome::kWaits);
  EXPECT_EQ(pool.core->Plan({.gpus = 2}, "name:alice", pool.now_ms).outcome, Placement::Outcome::kNever);
}

}  // namespace
}  // namespace tessera
