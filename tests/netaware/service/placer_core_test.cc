// Jobs and servers of the placer's core: who is granted what, and what becomes of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "protocol/ticket/ticket_check.h"
#include "tests/netaware/service/placer_world.h"

namespace tessera {
namespace {

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

// Nobody gets the news of an end twice: a request that comes right behind it would wait for ever.
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

TEST(PlacerCore, OfAHolderWithTooManyJobsThatWaitTheOldestEnd) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  world.Ask("fills");
  const GrantId bobs = world.Ask("b", 1, -1, "name:bob"), first = world.Ask("0"), second = world.Ask("1");
  const auto ask = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      PlacerCore::Ask more{.holder = "name:alice", .request_id = std::to_string(i)};
      more.wish.share = kWholeShare;
      ASSERT_TRUE(world.core->Place(more, world.now_ms).ok());
    }
    world.Settle();
  };
  ask(2, PlacerCore::kWaiting.of_holder);
  EXPECT_EQ(world.StateOf(first), State::kWaiting);
  ask(PlacerCore::kWaiting.of_holder, PlacerCore::kWaiting.of_holder + 1);
  EXPECT_EQ(world.StateOf(first), State::kRevoked);
  EXPECT_NE(world.told.at(first).reason.find("512 of one holder may"), std::string::npos) << world.told.at(first).reason;
  EXPECT_EQ(world.StateOf(second), State::kWaiting);
  // However many come at once.
  ask(1'000, 1'000 + 2 * PlacerCore::kWaiting.of_holder);
  EXPECT_EQ(world.StateOf(bobs), State::kWaiting);
  EXPECT_EQ(world.core->grants(), PlacerCore::kWaiting.of_holder + 2);
}

TEST(PlacerCore, ManyThatComeAtOnceAreGrantedWhereTheyFit) {
  constexpr size_t kMany = PlacerCore::kWaiting.of_holder + 100;
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  std::vector<GrantId> grants;
  for (size_t i = 0; i < kMany; ++i) {
    PlacerCore::Ask ask{.holder = "name:alice", .request_id = std::to_string(i)};
    ask.wish.share = kWholeShare / 1'000;
    ask.wish.memory_bytes = kGiB / 100;
    ask.wish.processes = 0;
    grants.push_back(world.core->Place(ask, world.now_ms).value());
  }
  world.Settle();
  for (const GrantId& grant : grants) EXPECT_NE(world.StateOf(grant), State::kRevoked);
}

TEST(PlacerCore, AsLongAsThereIsTimeIsNotLateAtOnce) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  world.Ask("fills");
  EXPECT_EQ(world.StateOf(world.Ask("r", 1, std::numeric_limits<int64_t>::max())), State::kWaiting);
  EXPECT_EQ(world.StateOf(world.Ask("s", 1, std::numeric_limits<int64_t>::max() - world.now_ms)), State::kWaiting);
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
  EXPECT_EQ(world.Orders(Kind::kCancel), "122");  // parts that the second one held after that are cancelled again
}

TEST(PlacerCore, AFullStoreGrantsNothingAndIsTriedAgainOnceASecond) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  world.full = true;
  const GrantId id = world.Ask("r");
  EXPECT_EQ(world.StateOf(id), State::kWaiting);
  EXPECT_EQ(world.told.at(id).reason, "the placer could not store the grant: it tries again");
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

TEST(PlacerCore, WhatAFullStoreHasNotForgottenDoesNotComeBack) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  const GrantId id = world.Ask("r");
  ASSERT_EQ(world.StateOf(id), State::kGranted);
  EXPECT_EQ(world.core->EndNotStored(id), std::nullopt);
  world.full = true;
  ASSERT_TRUE(world.core->Join(Node(2, 1), world.now_ms).ok());
  ASSERT_TRUE(world.core->Release(id).ok());
  world.Settle();
  EXPECT_EQ(world.core->EndNotStored(id), "name:alice");
  ASSERT_TRUE(world.kept.contains(KeyOfPlaced(id)));
  world.core->StoreNotes(world.now_ms);
  world.Settle();
  EXPECT_EQ(world.core->EndNotStored(id), "name:alice");
  // With whatever is stored next, and not behind it.
  world.full = false;
  const GrantId next = world.Ask("s");
  ASSERT_EQ(world.StateOf(next), State::kGranted);
  EXPECT_FALSE(world.kept.contains(KeyOfPlaced(id)));
  EXPECT_EQ(world.core->EndNotStored(id), std::nullopt);
  EXPECT_TRUE(world.kept.contains("servers/server2"));
  world.Restart();
  EXPECT_EQ(world.core->ViewAll().size(), 1U);
  EXPECT_EQ(world.core->pool().servers().size(), 2U);
  // One that is asked for again meanwhile is not forgotten.
  world.full = true;
  ASSERT_TRUE(world.core->Release(next).ok());
  world.Settle();
  ASSERT_TRUE(world.core->Join(Node(1, 1), world.now_ms).ok());
  world.full = false;
  EXPECT_EQ(world.Ask("s"), next);
  world.now_ms += 1'000;
  world.core->StoreNotes(world.now_ms);
  world.Settle();
  ASSERT_EQ(world.StateOf(next), State::kGranted);
  EXPECT_TRUE(world.kept.contains(KeyOfPlaced(next)));
}

TEST(PlacerCore, WhatAServerCouldNotKeepIsOrderedAgain) {
  World world;
  ASSERT_TRUE(world.core->Join(Node(1, 2), world.now_ms).ok());
  const GrantId ended = world.Ask("r"), granted = world.Ask("s");
  ASSERT_TRUE(world.core->Release(ended).ok());
  world.Settle();
  world.log.clear();
  // Its ledger's disk is full: it has the one that has ended still, and has not confirmed the other.
  const auto beat = [&](std::vector<NodeGrantState> grants) {
    world.core->Beat("server1", {.others = std::vector<GpuAmount>(2), .grants = std::move(grants)}, world.now_ms);
    world.Settle();
    std::string kinds;
    for (const auto& [server, order] : std::exchange(world.log, {}))
      kinds += order.kind == Kind::kRelease && order.grant == ended ? "release " : order.grant == granted ? "confirm " : "other ";
    return kinds;
  };
  const std::vector<NodeGrantState> has = {{ended, false, 0}, {granted, true, 0}};
  EXPECT_EQ(beat(has), "");  // the orders may be under way
  world.now_ms += PlacerCore::kDiffersMs;
  const std::string both = beat(has);
  EXPECT_TRUE(both == "release confirm " || both == "confirm release ") << both;
  world.now_ms += PlacerCore::kDiffersMs - 1;
  EXPECT_EQ(beat(has), "");
  world.now_ms += 1;
  EXPECT_EQ(beat(has).size(), both.size());
  // When it has done so it gets no more orders.
  EXPECT_EQ(beat({{granted, false, 0}}), "");
  world.now_ms += PlacerCore::kDiffersMs;
  EXPECT_EQ(beat({{granted, false, 0}}), "");
  EXPECT_EQ(world.StateOf(granted), State::kGranted);
}

TEST(PlacerCore, AServersNameAndGpusAreTheirFirstHolders) {
  World world;
  const auto of = [](int machine, const std::string& holder) {
    JoiningNode node = Node(machine, 1);
    node.holder = holder;
    return node;
  };
  ASSERT_TRUE(world.core->Join(of(1, "name:gpu1"), world.now_ms).ok());
  world.core->Leave("server1", world.now_ms);
  for (int round = 0; round < 2; ++round) {
    // Its name, while it is away, and its GPU by another name.
    EXPECT_EQ(world.core->Join(of(1, "name:gpu2"), world.now_ms).code(), StatusCode::kPermissionDenied);
    JoiningNode thief = of(2, "name:gpu2");
    thief.server.gpus[0].uuid = Uuid(1, 0);
    EXPECT_EQ(
        world.core->Join(thief, world.now_ms).message(),
        Uuid(1, 0) + " is of server 'server1', which is name:gpu1's: when that is gone for good, 'tessera remove server1' first");
    world.Restart();  // the next placer knows it, too
  }
  EXPECT_TRUE(world.core->Join(of(1, "name:gpu1"), world.now_ms).ok());
  world.core->Leave("server1", world.now_ms);
  ASSERT_TRUE(world.core->Remove("server1", "name:boss", world.now_ms).ok());
  EXPECT_TRUE(world.core->Join(of(1, "name:gpu2"), world.now_ms).ok());
  // Absent servers take no number of anybody.
  for (int machine = 2; machine <= 16; ++machine) ASSERT_TRUE(world.core->Join(of(machine, "name:gpu2"), world.now_ms).ok());
  EXPECT_EQ(world.core->Join(of(17, "name:gpu2"), world.now_ms).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(world.core->Join(of(17, "name:gpu3"), world.now_ms).ok());
  // A server that joins and leaves again and again takes its own part of the remembered places.
  world.core->Leave("server17", world.now_ms);
  world.core->StoreNotes(world.now_ms);
  EXPECT_EQ(world.transactions.back().records.back().owner, "name:gpu3");
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

// A part that it holds may be of the place before, which its release did not reach.
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

// This holds however long it lives, and however often its lease and the servers confirm it.
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

// For any events in any order: no GPU is granted twice by the servers' own count, and no announced grant is forgotten.
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
  // The host of a server that is away is not known.
  pool.core->Leave("server2", pool.now_ms);
  EXPECT_EQ(pool.StateOf(pool.Ask("d", 0.25, -1, "uid:7")), Grant::State::kWaiting);
}

}  // namespace
}  // namespace tessera
