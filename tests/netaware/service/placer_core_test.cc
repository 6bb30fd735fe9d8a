#include "netaware/service/placer_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "protocol/ticket/ticket_check.h"

namespace tessera {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

std::string Uuid(int machine, int number) {
  char text[64];
  std::snprintf(text, sizeof(text), "GPU-%08x-0000-0000-0000-%012x", machine, number);
  return text;
}

JoiningNode Node(int machine, int gpus, std::vector<NodeGrantState> grants = {}) {
  JoiningNode node;
  node.server.id = "server" + std::to_string(machine);
  node.server.addresses = {"unix:/" + node.server.id};
  node.host = "host";
  for (int i = 0; i < gpus; ++i)
    node.server.gpus.push_back(
        {.uuid = Uuid(machine, i), .model = "H100", .all = {kWholeShare, 80 * kGiB}, .context_bytes = kGiB / 2});
  node.state = {.others = std::vector<GpuAmount>(static_cast<size_t>(gpus)), .grants = std::move(grants)};
  return node;
}

// What a placer says, and servers that do as they are told where `obeys`; a store that keeps what it is given.
class World : public PlacerCore::Outside {
 public:
  World() { core = Make(); }

  std::unique_ptr<PlacerCore> Make() {
    Result<TicketSigner> signer = TicketSigner::FromPem(key);
    return std::make_unique<PlacerCore>(PlacerCore::Options{.cluster = "c", .ticket_ms = 600'000, .host = "host"},
                                        std::move(*signer), ++epoch, *this);
  }
  void Send(const std::string& server, const PlacerOrder& order) override { orders.push_back({server, order}); }
  void Tell(const GrantView& view) override { told[view.grant.ask.id] = view; }
  void Keep(StoreTransaction transaction, std::optional<GrantId> grant) override {
    for (const StoreChange& change : transaction.changes) {
      if (full && grant) continue;
      if (change.value) {
        kept[change.key] = *change.value;
      } else {
        kept.erase(change.key);
      }
    }
    for (const StoreRecord& record : transaction.records) {
      if (!full) records.push_back(ReadAudit(record).value());
    }
    if (full) failed.insert(failed.end(), transaction.records.begin(), transaction.records.end());
    if (grant) stored.push_back(*grant);
    transactions.push_back(std::move(transaction));
  }

  // Until nothing more is to be done now.
  void Settle() {
    for (int i = 0; i < 20; ++i) {
      core->Turn(now_ms);
      for (const GrantId& grant : std::exchange(stored, {})) core->Stored(grant, !full, now_ms);
      for (const auto& [server, order] : std::exchange(orders, {})) {
        log.push_back({server, order});
        if (obeys && order.kind == PlacerOrder::Kind::kHold)
          core->Answered(server, order.number, !refuses.contains(server), now_ms);
      }
    }
  }
  GrantId Ask(const std::string& request, double share = 1, int64_t wait_ms = -1, const std::string& holder = "name:alice") {
    PlacerCore::Ask ask{.holder = holder, .request_id = request, .wait_ms = wait_ms};
    ask.wish.share = static_cast<uint32_t>(share * kWholeShare);
    Result<GrantId> id = core->Place(ask, now_ms);
    EXPECT_TRUE(id.ok());
    Settle();
    return *id;
  }
  Grant::State StateOf(const GrantId& id) {
    const auto view = core->View(id);
    return view ? view->state : told.at(id).state;
  }
  std::string Orders(PlacerOrder::Kind kind) {
    std::string servers;
    for (const auto& [server, order] : log) {
      if (order.kind == kind) servers += server.back();
    }
    log.clear();
    return servers;
  }
  // A placer that begins with what is kept.
  void Restart() {
    core = Make();
    std::vector<StoreEntry> entries;
    for (const auto& [name, value] : kept) entries.push_back({name, value, 1});
    ASSERT_TRUE(core->Load(entries, now_ms).ok());
    orders.clear();
    stored.clear();
  }

  const std::string key = [] {
    Result<TicketSigner> made = TicketSigner::Make();
    return made->PrivatePem();
  }();
  uint64_t epoch = 0;
  int64_t now_ms = 1'000'000;
  bool obeys = true, full = false;
  std::set<std::string> refuses;
  std::map<std::string, std::string> kept;
  std::map<GrantId, GrantView> told;
  std::vector<std::pair<std::string, PlacerOrder>> orders, log;
  std::vector<GrantId> stored;
  std::vector<AuditRecord> records;  // that the store has
  std::vector<StoreRecord> failed;   // that it has not
  std::vector<StoreTransaction> transactions;
  std::unique_ptr<PlacerCore> core;
};

using Kind = PlacerOrder::Kind;
using State = Grant::State;

TEST(PlacerCore, AJobHasWhatItsTicketSaysAndGivesItBack) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 2), world.now_ms).ok());
  const GrantId id = world.Ask("r", 0.5);
  ASSERT_EQ(world.StateOf(id), State::kGranted);
  const GrantView view = *world.core->View(id);
  ASSERT_EQ(view.grant.parts.size(), 1U);
  TicketKeys keys;
  ASSERT_TRUE(keys.Add(world.core->public_key()).ok());
  Result<Ticket> ticket = keys.Open(view.grant.parts[0].ticket);
  ASSERT_TRUE(ticket.ok());
  EXPECT_EQ(ticket->server, "server1");
  EXPECT_EQ(ticket->holder, "name:alice");
  EXPECT_EQ(ticket->epoch, 1U);
  ASSERT_EQ(ticket->vgpus.size(), 1U);
  EXPECT_EQ(ticket->vgpus[0].request, kWholeShare / 2);
  EXPECT_EQ(ticket->vgpus[0].limit, kWholeShare);
  EXPECT_EQ(world.Orders(Kind::kHold), "1");
  ASSERT_TRUE(world.core->Release(id).ok());
  world.Settle();
  EXPECT_EQ(world.StateOf(id), State::kReleased);
  EXPECT_EQ(world.log.back().second.until_ms, world.now_ms + 600'000);  // no ticket of it lives longer
  EXPECT_EQ(world.Orders(Kind::kRelease), "1");
  EXPECT_FALSE(world.core->Release(id).ok());
  EXPECT_EQ(world.kept.size(), 1U);  // the server
}

TEST(PlacerCore, TheSameRequestIsTheSameGrantAndNobodyElses) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 4), world.now_ms).ok());
  const GrantId id = world.Ask("r", 0.5);
  EXPECT_EQ(world.Ask("r", 0.5), id);
  EXPECT_EQ(world.core->ViewAll().size(), 1U);
  EXPECT_NE(world.Ask("r", 0.5, -1, "name:bob"), id);
  EXPECT_NE(world.Ask("s", 0.5), id);
  PlacerCore::Ask other{.holder = "name:alice", .request_id = "r"};
  EXPECT_EQ(world.core->Place(other, world.now_ms).status().code(), StatusCode::kInvalidArgument);  // another wish
  for (const std::string& bad : {std::string(), std::string(129, 'x')}) {
    other.request_id = bad;
    EXPECT_EQ(world.core->Place(other, world.now_ms).status().code(), StatusCode::kInvalidArgument);
  }
}

// Nobody is told twice of an end: whoever comes back right behind it would wait for ever.
TEST(PlacerCore, ARequestRightBehindItsEndIsToBeMadeAgain) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  world.Ask("first");
  const GrantId id = world.Ask("r");
  world.core->Withdraw(id);
  world.core->Turn(world.now_ms);
  ASSERT_EQ(world.told.at(id).state, State::kReleased);
  const PlacerCore::Ask again{.holder = "name:alice", .request_id = "r"};
  EXPECT_EQ(world.core->Place(again, world.now_ms).status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(world.core->View(id).has_value());
  world.core->Turn(world.now_ms);
  ASSERT_TRUE(world.core->Place(again, world.now_ms).ok());
  EXPECT_EQ(world.StateOf(id), State::kWaiting);
}

TEST(PlacerCore, AServerThatRefusesIsAvoidedAndNothingOfItStays) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  ASSERT_TRUE(world.core->Join(Node(2, 1), world.now_ms).ok());
  world.refuses = {"server1"};
  const GrantId id = world.Ask("r");
  ASSERT_EQ(world.StateOf(id), State::kGranted);
  EXPECT_EQ(world.core->View(id)->grant.parts[0].server, "server2");
  // Both are asked at once for a job over both, and one refuses: neither keeps a part.
  ASSERT_TRUE(world.core->Release(id).ok());
  world.Settle();
  world.log.clear();
  PlacerCore::Ask both{.holder = "name:alice", .request_id = "both"};
  both.wish.gpus = 2;
  Result<GrantId> placed = world.core->Place(both, world.now_ms);
  ASSERT_TRUE(placed.ok());
  const GrantId waits = *placed;
  world.Settle();
  EXPECT_EQ(world.StateOf(waits), State::kWaiting);
  EXPECT_EQ(world.Orders(Kind::kCancel), "122");  // what the second one held after that it is told again
}

// "actor action object outcome", of grants with their request for the id.
std::vector<std::string> NotesOf(World& world, const std::map<GrantId, std::string>& names) {
  std::vector<std::string> notes;
  for (const AuditRecord& record : std::exchange(world.records, {})) {
    std::string object = record.object;
    for (const auto& [id, name] : names) object = object == GrantText(id) ? name : object;
    notes.push_back(record.actor + " " + record.action + " " + object + " " + record.outcome);
  }
  return notes;
}

TEST(PlacerCore, WhatHappensIsRememberedWithWhatIsStored) {
  World world;
  JoiningNode node = Node(1, 2);
  node.holder = "name:gpu1";
  ASSERT_TRUE(world.core->Join(node, world.now_ms).ok());
  EXPECT_FALSE(world.core->Join(node, world.now_ms).ok());
  const GrantId a = world.Ask("a"), b = world.Ask("b"), late = world.Ask("late", 1, 10),
                never = world.Ask("never", 1, -1, "name:bob");
  world.now_ms += 1'000;
  world.Settle();
  ASSERT_TRUE(world.core->Revoke(a, "by name:boss: noon", "name:boss").ok());
  ASSERT_TRUE(world.core->Release(b).ok());
  world.core->Withdraw(never);
  world.Settle();
  world.core->Leave("server1", world.now_ms);
  const size_t transactions = world.transactions.size();
  world.core->StoreNotes();
  EXPECT_EQ(world.transactions.size(), transactions + 1);
  world.core->StoreNotes();  // nothing is noted, and nothing stored
  EXPECT_EQ(world.transactions.size(), transactions + 1);
  EXPECT_EQ(world.records[1].outcome, "refused");
  EXPECT_EQ(world.records[2].time_ms, 1'000'000);
  EXPECT_EQ(world.records[2].text, "1 GPU, 1 of each");
  // What is stored has with it the record of that.
  for (const StoreTransaction& transaction : world.transactions) {
    for (const StoreChange& change : transaction.changes) {
      const std::string grant = change.key.substr(change.key.find('/') + 1);
      const auto tells = [&](const StoreRecord& record) { return ReadAudit(record).value().object == grant; };
      EXPECT_TRUE(std::ranges::any_of(transaction.records, tells)) << change.key;
    }
  }
  std::vector<std::string> notes = NotesOf(world, {{a, "a"}, {b, "b"}, {late, "late"}, {never, "never"}});
  for (const char* note : {"name:gpu1 join server1 done", "name:gpu1 join server1 refused", "name:alice ask a done",
                           "placer grant a done", "name:alice ask b done", "placer grant b done", "name:alice ask late done",
                           "name:bob ask never done", "placer grant late late", "name:boss revoke a done",
                           "name:alice release b done", "name:bob release never done", "placer leave server1 done"}) {
    const auto found = std::ranges::find(notes, note);
    EXPECT_NE(found, notes.end()) << note;
    if (found != notes.end()) notes.erase(found);
  }
  EXPECT_EQ(notes, std::vector<std::string>());
}

TEST(PlacerCore, WhatAFullStoreHasNotKeptIsNotedAgainButNotWhatWasNotGranted) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  world.records.clear();
  world.full = true;
  const GrantId id = world.Ask("r");
  ASSERT_EQ(world.failed.size(), 2U);  // asked, and granted
  world.core->NotesNotStored(std::exchange(world.failed, {}));
  world.full = false;
  world.now_ms += PlacerCore::kStoreAgainMs;
  world.Settle();
  ASSERT_EQ(world.StateOf(id), State::kGranted);
  EXPECT_EQ(NotesOf(world, {{id, "r"}}), (std::vector<std::string>{"name:alice ask r done", "placer grant r done"}));
}

TEST(PlacerCore, TheSameRefusalAgainAndAgainIsOneRecord) {
  World world;
  const AuditRecord refused{.actor = "name:eve", .action = "ask", .outcome = "refused", .text = "no role\x1b"};
  for (int i = 0; i < 100; ++i) world.core->Note(refused, world.now_ms);
  world.core->StoreNotes();
  ASSERT_EQ(world.records.size(), 1U);
  EXPECT_EQ(world.records[0].text, "no role?");
  world.core->Note(refused, world.now_ms);
  world.core->StoreNotes();
  EXPECT_EQ(world.records.size(), 2U);
  // Of a flood of others there is an end, whatever the store does.
  for (size_t i = 0; i < PlacerCore::kNotesMax + 10; ++i) world.core->Note({.object = std::to_string(i)}, world.now_ms);
  world.core->StoreNotes();
  EXPECT_EQ(world.records.size(), PlacerCore::kNotesMax + 2);
}

TEST(PlacerCore, AFullStoreGrantsNothingAndIsTriedAgainOnceASecond) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  world.full = true;
  const GrantId id = world.Ask("r");
  EXPECT_EQ(world.StateOf(id), State::kHeld);
  EXPECT_EQ(world.Orders(Kind::kHold), "1");
  world.now_ms = world.core->NextMs();
  world.Settle();
  EXPECT_EQ(world.Orders(Kind::kHold), "1");
  EXPECT_FALSE(world.told.contains(id) && world.told.at(id).state == State::kGranted);
  world.full = false;
  world.now_ms += 1'000;
  world.Settle();
  EXPECT_EQ(world.StateOf(id), State::kGranted);
}

TEST(PlacerCore, ThePlacerAfterItKnowsAllAndGivesNothingTwice) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 2), world.now_ms).ok());
  const GrantId id = world.Ask("r");
  world.Restart();
  EXPECT_EQ(world.StateOf(id), State::kGranted);
  EXPECT_EQ(world.core->HostOf("server1"), "host");  // by which a job knows where it is
  // The server is not back yet, and what it has is not offered.
  EXPECT_EQ(world.StateOf(world.Ask("s", 1, 0)), State::kLate);
  ASSERT_TRUE(world.core->Join(Node(1, 2, {{id, false, 1}}), world.now_ms).ok());
  EXPECT_EQ(world.StateOf(world.Ask("t")), State::kGranted);
  EXPECT_EQ(world.StateOf(world.Ask("u")), State::kWaiting);
  // Its tickets are of the new epoch, and good.
  TicketKeys keys;
  ASSERT_TRUE(keys.Add(world.core->public_key()).ok());
  EXPECT_EQ(keys.Open(world.core->View(id)->grant.parts[0].ticket)->epoch, 2U);
  EXPECT_EQ(world.Ask("r"), id);
}

TEST(PlacerCore, WhatAServerHasIsComparedWithWhatIsGranted) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 3), world.now_ms).ok());
  const GrantId lost = world.Ask("lost"), held = world.Ask("held"), ends = world.Ask("ends");
  world.core->Leave("server1");
  ASSERT_TRUE(world.core->Release(ends).ok());
  world.Settle();
  world.log.clear();
  const GrantId unknown = GrantOf("c", "name:alice", "unknown");
  ASSERT_TRUE(world.core->Join(Node(1, 3, {{held, true, 0}, {ends, false, 2}, {unknown, true, 0}}), world.now_ms).ok());
  world.Settle();
  std::string orders;
  for (const auto& [server, order] : world.log) {
    const char* const name = order.grant == lost   ? "lost"
                             : order.grant == held ? "held"
                             : order.grant == ends ? "ends"
                                                   : "unknown";
    orders += std::string(1, "hcCr"[static_cast<int>(order.kind)]) + name + " ";
  }
  EXPECT_EQ(orders, "Cheld rends runknown hlost Clost ");
}

// What it holds may be of the place before, which its release did not reach.
TEST(PlacerCore, AServerThatComesBackWhileItIsToHoldAPartIsAskedAnew) {
  World world;
  world.obeys = false;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  const GrantId id = world.Ask("r");
  ASSERT_EQ(world.StateOf(id), State::kHolding);
  world.core->Leave("server1");
  world.log.clear();
  ASSERT_TRUE(world.core->Join(Node(1, 1, {{id, true, 0}}), world.now_ms).ok());
  world.Settle();
  EXPECT_EQ(world.StateOf(id), State::kWaiting);
  EXPECT_EQ(world.Orders(Kind::kRelease), "1");
  world.obeys = true;
  world.now_ms += 5'000;
  world.Settle();
  EXPECT_EQ(world.StateOf(id), State::kGranted);
  EXPECT_EQ(world.Orders(Kind::kHold), "1");
}

TEST(PlacerCore, ALateAnswerIsNotThatToTheNextOrder) {
  World world;
  world.obeys = false;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  const GrantId id = world.Ask("r");
  const uint64_t first = world.log.back().second.number;
  world.now_ms += 1'000;  // it is silent for too long
  world.Settle();
  ASSERT_EQ(world.StateOf(id), State::kWaiting);
  world.now_ms += 5'000;
  world.core->Beat("server1", {.others = std::vector<GpuAmount>(1)}, world.now_ms);
  world.Settle();
  ASSERT_EQ(world.StateOf(id), State::kHolding);
  const uint64_t second = world.log.back().second.number;
  ASSERT_NE(second, first);
  world.core->Answered("server1", first, true, world.now_ms);
  world.Settle();
  EXPECT_EQ(world.StateOf(id), State::kHolding);
  world.core->Answered("server1", second, true, world.now_ms);
  world.Settle();
  EXPECT_EQ(world.StateOf(id), State::kGranted);
}

// However long it lives, and however often its lease and the servers say so.
TEST(PlacerCore, AJobCostsEachOfItsServersAHoldAConfirmationAndARelease) {
  World world;
  for (const int machine : {1, 2}) ASSERT_TRUE(world.core->Join(Node(machine, 1), world.now_ms).ok());
  PlacerCore::Ask both{.holder = "name:alice", .request_id = "both"};
  both.wish.gpus = 2;
  Result<GrantId> id = world.core->Place(both, world.now_ms);
  ASSERT_TRUE(id.ok());
  world.Settle();
  for (int second = 0; second < 600; ++second) {
    world.now_ms += 1'000;
    for (const int machine : {1, 2})
      world.core->Beat("server" + std::to_string(machine), {.others = std::vector<GpuAmount>(1), .grants = {{*id, false, 1}}},
                       world.now_ms);
    ASSERT_TRUE(world.core->Renew(*id, world.now_ms).ok());
    world.Settle();
  }
  ASSERT_TRUE(world.core->Release(*id).ok());
  world.Settle();
  std::map<std::string, std::string> orders;
  for (const auto& [server, order] : world.log) orders[server] += "hCcr"[static_cast<int>(order.kind)];
  EXPECT_EQ(orders, (std::map<std::string, std::string>{{"server1", "hcr"}, {"server2", "hcr"}}));
}

TEST(PlacerCore, TicketsAreRenewedAThirdOfTheirLifeOn) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  const GrantId id = world.Ask("r");
  const auto ticket = [&] { return world.core->View(id)->grant.parts[0].ticket; };
  const auto first = ticket();
  world.now_ms += 199'999;
  ASSERT_TRUE(world.core->Renew(id, world.now_ms).ok());
  EXPECT_EQ(ticket(), first);
  world.now_ms += 1;
  ASSERT_TRUE(world.core->Renew(id, world.now_ms).ok());
  EXPECT_NE(ticket(), first);
  TicketKeys keys;
  ASSERT_TRUE(keys.Add(world.core->public_key()).ok());
  EXPECT_EQ(keys.Open(ticket())->expires_ms, world.now_ms + 600'000);
  EXPECT_EQ(keys.Open(ticket())->renewal, 1U);
}

TEST(PlacerCore, AJobOfWhichNothingIsHeardEndsUnlessASessionOfItIsThere) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 2), world.now_ms).ok());
  const GrantId silent = world.Ask("silent"), works = world.Ask("works");
  for (int i = 0; i < 70; ++i) {
    world.now_ms += 1'000;
    world.core->Beat("server1", {.others = std::vector<GpuAmount>(2), .grants = {{silent, false, 0}, {works, false, 1}}},
                     world.now_ms);
    world.Settle();
  }
  EXPECT_EQ(world.StateOf(silent), State::kReleased);
  EXPECT_EQ(world.StateOf(works), State::kGranted);
}

TEST(PlacerCore, OthersMustNotJoinAsAServerThatIsThere) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 2), world.now_ms).ok());
  EXPECT_FALSE(world.core->Join(Node(1, 1), world.now_ms).ok());
  JoiningNode twin = Node(1, 1);
  twin.server.id = "twin";
  EXPECT_FALSE(world.core->Join(std::move(twin), world.now_ms).ok());
  JoiningNode strange = Node(2, 1);
  strange.server.gpus[0].uuid = "GPU-none";
  EXPECT_FALSE(world.core->Join(std::move(strange), world.now_ms).ok());
  EXPECT_EQ(world.core->pool().servers().size(), 1U);
}

// Whatever happens, in whatever order: no GPU is granted twice by the servers' own count, and no grant that was told is
// forgotten.
TEST(PlacerCore, RandomStepsGrantNothingTwice) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    World world;
    std::vector<GrantId> asked;
    std::set<int> joined;
    for (int step = 0; step < 400; ++step) {
      const int machine = 1 + static_cast<int>(random() % 3);
      switch (random() % 8) {
        case 0:
          if (!joined.contains(machine)) {
            std::vector<NodeGrantState> has;
            for (const GrantView& view : world.core->ViewAll()) {
              for (const PlacedPart& part : view.grant.parts) {
                if (part.server.back() == static_cast<char>('0' + machine))
                  has.push_back({view.grant.ask.id, random() % 2 == 0, 0});
              }
            }
            EXPECT_TRUE(world.core->Join(Node(machine, 2, has), world.now_ms).ok());
            joined.insert(machine);
          }
          break;
        case 1:
          if (joined.erase(machine) != 0) world.core->Leave("server" + std::to_string(machine));
          break;
        case 2: world.refuses = random() % 4 == 0 ? std::set<std::string>{"server1"} : std::set<std::string>{}; break;
        case 3: world.full = random() % 3 == 0; break;
        case 4:
          if (!asked.empty()) (void)world.core->Release(asked[random() % asked.size()]);
          break;
        case 5:
          if (random() % 8 == 0) {
            world.Restart();
            joined.clear();
          }
          break;
        default: asked.push_back(world.Ask(std::to_string(seed) + "-" + std::to_string(step), (1 + random() % 4) / 4.0, 2'000));
      }
      world.now_ms += random() % 700;
      for (const int there : joined)
        world.core->Beat("server" + std::to_string(there), {.others = std::vector<GpuAmount>(2)}, world.now_ms);
      for (const GrantId& id : asked) world.core->Lives(id, world.now_ms);
      world.Settle();
      std::map<std::string, uint64_t> shares;
      for (const GrantView& view : world.core->ViewAll()) {
        for (const PlacedPart& part : view.grant.parts) {
          for (const PlacedGpu& gpu : part.gpus) shares[gpu.uuid] += view.grant.ask.wish.share;
        }
        if (view.state == State::kGranted) {
          EXPECT_TRUE(world.kept.contains(KeyOfPlaced(view.grant.ask.id)));
        }
      }
      for (const auto& [uuid, share] : shares) EXPECT_LE(share, kWholeShare) << uuid << " seed " << seed << " step " << step;
    }
  }
}

// Servers of other hosts know no users of this one.
TEST(PlacerCore, AUserWithoutANameIsPlacedOnThePlacersHostAlone) {
  World pool;
  JoiningNode far = Node(1, 1);
  far.host = "elsewhere";
  ASSERT_TRUE(pool.core->Join(far, pool.now_ms).ok());
  const GrantId refused = pool.Ask("a", 0.5, -1, "uid:7");
  EXPECT_EQ(pool.StateOf(refused), Grant::State::kRefused);
  EXPECT_NE(
      pool.told.at(refused).reason.find("of another host, where nobody knows this user: ask at the placer's tls:// address"),
      std::string::npos)
      << pool.told.at(refused).reason;
  EXPECT_EQ(pool.core->Plan({.share = 500'000}, "uid:7", pool.now_ms).outcome, Placement::Outcome::kNever);
  EXPECT_EQ(pool.StateOf(pool.Ask("b", 0.5, -1, "name:alice")), Grant::State::kGranted);
  pool.log.clear();

  ASSERT_TRUE(pool.core->Join(Node(2, 1), pool.now_ms).ok());
  const GrantId granted = pool.Ask("c", 0.5, -1, "uid:7");
  EXPECT_EQ(pool.StateOf(granted), Grant::State::kGranted);
  EXPECT_EQ(pool.Orders(PlacerOrder::Kind::kHold), "2");
  // The same request is the same grant for a placer of later, too.
  pool.Restart();
  EXPECT_EQ(pool.Ask("c", 0.5, -1, "uid:7"), granted);
  EXPECT_EQ(pool.StateOf(granted), Grant::State::kGranted);
  // Of one that is away it is not known which host it is of by now.
  pool.core->Leave("server2", pool.now_ms);
  EXPECT_EQ(pool.StateOf(pool.Ask("d", 0.25, -1, "uid:7")), Grant::State::kWaiting);
}

}  // namespace
}  // namespace tessera
