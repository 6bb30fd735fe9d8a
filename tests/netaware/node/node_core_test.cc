#include "netaware/node/node_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/netaware/node/some_node.h"

namespace tessera {
namespace {

using Kind = NodeOrder::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NodeCoreTest : public NodeTest {
 protected:
  NodeCoreTest() {
    Connect();
    Welcome();
  }
};

TEST_F(NodeCoreTest, AGrantIsHeldConfirmedAndReleased) {
  Give(Hold(1, 0xa1));
  EXPECT_EQ(Answer(1), "done");
  EXPECT_THAT(There(), ElementsAre(Name(0xa1, 0), Name(0xa1, 1)));
  EXPECT_EQ(vgpus[Name(0xa1, 0)], (WantedVgpu{.name = Name(0xa1, 0),
                                              .gpu = "GPU-01010101-0101-0101-0101-010101010101",
                                              .request = 0.25,
                                              .limit = 0.5,
                                              .memory_bytes = 1 << 30,
                                              .processes = 2,
                                              .isolation = "strict",
                                              .priority = "normal",
                                              .owner = "name:alice"}));
  Give(Order(2, Kind::kConfirm, 0xa1));
  EXPECT_EQ(Answer(2), "done");
  Pass(3'600'000);  // a grant ends by no time
  EXPECT_EQ(vgpus.size(), 2u);
  Give(Order(3, Kind::kRelease, 0xa1));
  EXPECT_EQ(Answer(3), "done");
  EXPECT_THAT(There(), IsEmpty());
}

TEST_F(NodeCoreTest, AHoldIsDurableBeforeTheBrokerIsAskedAndAnsweredWhenAllIsMade) {
  broker_answers = false;
  Give(Hold(1, 0xa1));
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_FALSE(store->Range("grants/").empty());
  EXPECT_EQ(Answer(1), "");
  core->CallDone(Name(0xa1, 0), Status::Ok(), Now());
  Turn();
  EXPECT_EQ(Answer(1), "");
  core->CallDone(Name(0xa1, 1), Status::Ok(), Now());
  Turn();
  EXPECT_EQ(Answer(1), "done");
}

TEST_F(NodeCoreTest, ARefusedHoldLeavesNothing) {
  refused = {Name(0xa1, 1)};
  Give(Hold(1, 0xa1));
  EXPECT_EQ(Answer(1), "it is 5 % too much");
  EXPECT_THAT(There(), IsEmpty());
  EXPECT_TRUE(store->Range("grants/").empty());
  refused.clear();
  Give(Hold(2, 0xa1));  // and may come again
  EXPECT_EQ(Answer(2), "done");
}

TEST_F(NodeCoreTest, TheSameNumberHasTheSameAnswer) {
  refused = {Name(0xa1, 0)};
  Give(Hold(1, 0xa1));
  refused.clear();
  Give(Hold(1, 0xa1));
  EXPECT_EQ(Answer(1), "it is 5 % too much");
  EXPECT_EQ(answered, 2);
  EXPECT_EQ(made, 2);
  broker_answers = false;
  core->Take(Hold(2, 0xa2));
  core->Take(Hold(2, 0xa2));
  Turn();
  core->Take(Hold(2, 0xa2));
  broker_answers = true;
  Turn();
  EXPECT_EQ(Answer(2), "done");
  EXPECT_EQ(answered, 3);
}

TEST_F(NodeCoreTest, OrdersAgainByOtherNumbersChangeNothing) {
  for (uint64_t number = 1; number <= 2; ++number) Give(Hold(number, 0xa1));
  for (uint64_t number = 3; number <= 4; ++number) Give(Order(number, Kind::kConfirm, 0xa1));
  Give(Hold(5, 0xa1));
  for (uint64_t number = 6; number <= 7; ++number) Give(Order(number, Kind::kRelease, 0xa1));
  for (uint64_t number = 1; number <= 7; ++number) EXPECT_EQ(Answer(number), "done") << number;
  EXPECT_EQ(made, 2);
  Give(Order(8, Kind::kConfirm, 0xa1));
  EXPECT_THAT(Answer(8), HasSubstr("released"));
}

TEST_F(NodeCoreTest, WhatIsReleasedIsGoneBeforeWhatIsHeldIsMade) {
  Give(Hold(1, 0xa1));
  broker_answers = false;
  core->Take(Hold(2, 0xa2));
  core->Take(Order(3, Kind::kRelease, 0xa1));
  Turn();
  const auto deletes = [&] { return std::ranges::count(calls, GrantVgpus::Call::Kind::kDelete, &GrantVgpus::Call::kind); };
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(deletes(), 2);
  core->CallDone(Name(0xa1, 0), Status::Ok(), Now());
  Turn();
  EXPECT_EQ(calls.size(), 2u);
  // But not for ever.
  EXPECT_EQ(next_ms, kSteady + GrantVgpus::kBusyAgainMs);
  Pass(GrantVgpus::kBusyAgainMs);
  EXPECT_EQ(calls.size(), 4u);
  EXPECT_EQ(deletes(), 2);
  broker_answers = true;
  Turn();
  EXPECT_EQ(Answer(2), "done");
  EXPECT_EQ(Answer(3), "done");
  EXPECT_THAT(There(), ElementsAre(Name(0xa2, 0), Name(0xa2, 1)));
}

TEST_F(NodeCoreTest, SessionsThatStillEndDelayWhatIsHeldNextAndRefuseNothing) {
  Give(Hold(1, 0xa1));
  Give(Order(2, Kind::kRelease, 0xa1));
  EXPECT_EQ(Answer(2), "done");
  refused = {Name(0xa2, 0)};
  Give(Hold(3, 0xa2));
  EXPECT_EQ(Answer(3), "");
  Pass(GrantVgpus::kBusyAgainMs);
  EXPECT_EQ(Answer(3), "");
  refused.clear();
  Pass(GrantVgpus::kBusyAgainMs);
  EXPECT_EQ(Answer(3), "done");

  // An order that is refused for another reason is refused a little later.
  Give(Order(4, Kind::kRelease, 0xa2));
  refused = {Name(0xa3, 0)};
  Give(Hold(5, 0xa3));
  EXPECT_EQ(Answer(5), "");
  Pass(GrantVgpus::kEndsMs);
  EXPECT_THAT(Answer(5), HasSubstr("too much"));
}

TEST_F(NodeCoreTest, WhatIsHeldAgainOfOtherGpusIsMadeThere) {
  Give(Hold(1, 0xa1));
  Ticket ticket = TicketOf(0xa1);
  std::swap(ticket.vgpus[0].gpu, ticket.vgpus[1].gpu);
  NodeOrder again = Hold(3, 0xa1);
  again.ticket = signer.Sign(ticket);
  core->Take(Order(2, Kind::kRelease, 0xa1));
  Give(again);
  EXPECT_EQ(Answer(3), "done");
  EXPECT_EQ(vgpus.at(Name(0xa1, 0)).gpu, kSecondGpu);
  EXPECT_EQ(vgpus.at(Name(0xa1, 1)).gpu, kFirstGpu);
}

TEST_F(NodeCoreTest, APlacerThatGaveAHoldBackMayHoldItAgain) {
  Give(Hold(1, 0xa1));
  Give(Order(2, Kind::kRelease, 0xa1));  // it had not received the hold, and compared ledgers
  Welcome(4);
  Give(Hold(3, 0xa1, 4));
  EXPECT_EQ(Answer(3), "done");
  EXPECT_EQ(vgpus.size(), 2u);
  Give(Order(4, Kind::kCancel, 0xa1));
  EXPECT_EQ(Answer(4), "done");
  EXPECT_THAT(There(), IsEmpty());
  EXPECT_EQ(core->ledger().StateOf(TicketOf(0xa1).grant, kPlacer), TicketScene::Grant::kReleased);
}

TEST_F(NodeCoreTest, ACancelTakesAHoldBackAlsoOneThatIsBeingMade) {
  Give(Hold(1, 0xa1));
  Give(Order(2, Kind::kCancel, 0xa1));
  EXPECT_EQ(Answer(2), "done");
  EXPECT_THAT(There(), IsEmpty());
  broker_answers = false;
  Give(Hold(3, 0xa2));
  Give(Order(4, Kind::kCancel, 0xa2));
  EXPECT_THAT(Answer(3), HasSubstr("taken back"));
  EXPECT_EQ(Answer(4), "");  // its vGPUs may still be made
  broker_answers = true;
  Turn();
  EXPECT_EQ(Answer(4), "done");
  EXPECT_THAT(There(), IsEmpty());
  Give(Order(5, Kind::kCancel, 0xa3));  // a grant that nobody knows
  EXPECT_EQ(Answer(5), "done");
}

TEST_F(NodeCoreTest, AHoldThatNobodyConfirmsEnds) {
  Give(Hold(1, 0xa1));
  Pass(59'000);
  EXPECT_EQ(vgpus.size(), 2u);
  EXPECT_TRUE(core->Beat(Now()).grants.front().is_held);
  Pass(1'000);
  EXPECT_THAT(There(), IsEmpty());
  EXPECT_TRUE(core->Beat(Now()).grants.empty());
  Give(Order(2, Kind::kConfirm, 0xa1));
  EXPECT_THAT(Answer(2), HasSubstr("not held"));
  NodeOrder late = Hold(3, 0xa2);
  late.until_ms = kPlacer + passed_ms;
  Give(late);
  EXPECT_THAT(Answer(3), HasSubstr("ended before it came"));
}

TEST_F(NodeCoreTest, ABrokerThatIsAwayIsWaitedForAndTheHoldGivenUpInTheEnd) {
  core->BrokerLost();
  Give(Hold(1, 0xa1));
  EXPECT_EQ(Answer(1), "");
  Pass(2'000);
  Connect();
  EXPECT_EQ(Answer(1), "done");
  core->BrokerLost();
  Give(Hold(2, 0xa2));
  EXPECT_LE(next_ms, kSteady + passed_ms + NodeCore::kMakeMs);
  Pass(NodeCore::kMakeMs);
  EXPECT_THAT(Answer(2), HasSubstr("broker does not answer"));
  Connect();
  EXPECT_THAT(There(), ElementsAre(Name(0xa1, 0), Name(0xa1, 1)));
}

TEST_F(NodeCoreTest, ABrokerThatIsBusyIsAskedAgain) {
  broker_answers = false;
  Give(Hold(1, 0xa1));
  calls.clear();
  core->CallDone(Name(0xa1, 0), Status(StatusCode::kUnavailable, "too many calls wait"), Now());
  core->CallDone(Name(0xa1, 1), Status::Ok(), Now());
  Turn();
  EXPECT_TRUE(calls.empty());
  EXPECT_EQ(next_ms, kSteady + GrantVgpus::kBusyAgainMs);
  broker_answers = true;
  Pass(GrantVgpus::kBusyAgainMs);
  EXPECT_EQ(Answer(1), "done");
}

TEST_F(NodeCoreTest, ANewBrokerGetsWhatItLacksAndLosesWhatIsNoGrants) {
  Give(Hold(1, 0xa1));
  Give(Order(2, Kind::kConfirm, 0xa1));
  core->BrokerLost();
  vgpus = {{Name(0xee, 0), {.name = Name(0xee, 0)}}, {Name(0xa1, 1), {.name = Name(0xa1, 1), .gpu = kSecondGpu}}};
  others = {{.name = "train"}, {.name = "grant-of-alice"}, {.name = Name(0xef, 0), .is_of_api = false}};
  Connect();
  EXPECT_THAT(There(), ElementsAre(Name(0xa1, 0), Name(0xa1, 1)));
  EXPECT_EQ(made, 3);
  EXPECT_TRUE(calls.empty());
}

TEST_F(NodeCoreTest, AVgpuThatIsNotInForceIsMadeAnew) {
  Give(Hold(1, 0xa1));
  core->TakeList({.vgpus = {{.name = Name(0xa1, 0), .is_in_force = false}, {.name = Name(0xa1, 1), .gpu = kSecondGpu}}});
  broker_answers = false;
  Turn();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].kind, GrantVgpus::Call::Kind::kDelete);
  calls.clear();
  core->CallDone(Name(0xa1, 0), Status::Ok(), Now());
  Turn();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].vgpu.name, Name(0xa1, 0));
  EXPECT_EQ(calls[0].kind, GrantVgpus::Call::Kind::kCreate);
}

TEST_F(NodeCoreTest, AGrantThatTheBrokerRefusesAnewStaysInTheLedger) {
  Give(Hold(1, 0xa1));
  Give(Order(2, Kind::kConfirm, 0xa1));
  vgpus.clear();
  refused = {Name(0xa1, 0)};
  Connect();
  EXPECT_EQ(made, 4);
  Pass(GrantVgpus::kAgainMs - 1);
  EXPECT_EQ(made, 4);  // not again and again
  refused.clear();
  Pass(1);
  EXPECT_THAT(There(), ElementsAre(Name(0xa1, 0), Name(0xa1, 1)));
}

TEST_F(NodeCoreTest, HoldsOfOthersAreRefused) {
  const auto held = [&](const Ticket& ticket, const TicketSigner& key) {
    static uint64_t number = 100;
    Give({++number, Kind::kHold, GrantText(ticket.grant), key.Sign(ticket), kPlacer + 60'000});
    return Answer(number);
  };
  const TicketSigner stranger = std::move(TicketSigner::Make()).value();
  EXPECT_THAT(held(TicketOf(1), stranger), HasSubstr("key"));
  Ticket ticket = TicketOf(1);
  ticket.server = "gpu8";
  EXPECT_THAT(held(ticket, signer), HasSubstr("for the server 'gpu8'"));
  ticket = TicketOf(1);
  ticket.cluster = "east";
  EXPECT_THAT(held(ticket, signer), HasSubstr("of the cluster 'east'"));
  EXPECT_THAT(held(TicketOf(1, 2), signer), HasSubstr("epoch 2"));
  EXPECT_THAT(held(TicketOf(1, 4), signer), HasSubstr("epoch 4"));
  NodeOrder order = Hold(1, 0xa1);
  order.grant = Id(0xa2);
  Give(order);
  EXPECT_THAT(Answer(1), HasSubstr(Id(0xa1)));
  order = Hold(2, 0xa1);
  order.ticket.pop_back();
  Give(order);
  EXPECT_FALSE(Answer(2).empty());
  for (const char* id : {"", "../../etc", "A1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"}) {
    order = Order(3, Kind::kRelease, 0);
    order.number = 200 + std::string(id).size();
    order.grant = id;
    Give(order);
    EXPECT_THAT(Answer(order.number), HasSubstr("is no grant"));
  }
  Give(Order(4, Kind::kUnknown, 0xa1));
  EXPECT_THAT(Answer(4), HasSubstr("another release"));
  EXPECT_TRUE(store->Range("grants/").empty());
  EXPECT_EQ(made, 0);
}

TEST_F(NodeCoreTest, AnOlderPlacerOrOneOfAnotherPoolIsNotTaken) {
  Start();
  EXPECT_EQ(core->Welcomed({"west", 2, {signer.PublicPem()}, kPlacer}, Now()).code(), StatusCode::kPermissionDenied);
  const Status other = core->Welcomed({"east", 9, {signer.PublicPem()}, kPlacer}, Now());
  EXPECT_THAT(other.message(), HasSubstr("'east'"));
  EXPECT_EQ(core->ledger().newest_epoch(), 3u);
  EXPECT_FALSE(core->Welcomed({"west", 4, {"no key"}, kPlacer}, Now()).ok());
  EXPECT_FALSE(core->Welcomed({"west", 4, {}, kPlacer}, Now()).ok());
  EXPECT_FALSE(core->Welcomed({"west", 0, {signer.PublicPem()}, kPlacer}, Now()).ok());
  Give(Hold(1, 0xa1));
  EXPECT_EQ(Answer(1), "");  // nobody receives it
  EXPECT_EQ(made, 0);
}

TEST_F(NodeCoreTest, APlacersStreamThatEndsTakesItsAnswersAlong) {
  broker_answers = false;
  Give(Hold(1, 0xa1));
  core->PlacerLost();
  Welcome(4);
  broker_answers = true;
  Turn();
  EXPECT_EQ(answered, 0);
  const NodeBeat beat = core->Beat(Now());
  ASSERT_EQ(beat.grants.size(), 1u);
  EXPECT_EQ(beat.grants[0].grant, Id(0xa1));
  Give(Order(1, Kind::kConfirm, 0xa1));
  EXPECT_EQ(Answer(1), "done");
}

TEST_F(NodeCoreTest, ABeatTellsOfOthersAndOfSessions) {
  Give(Hold(1, 0xa1));
  Give(Order(2, Kind::kConfirm, 0xa1));
  others = {{.name = "a", .gpu = "GPU-01010101-0101-0101-0101-010101010101", .request = 0.25, .memory_bytes = 10 << 20},
            {.name = "b", .gpu = "GPU-01010101-0101-0101-0101-010101010101", .request = 0.5, .memory_bytes = 20 << 20},
            {.name = "c", .gpu = "GPU-02020202-0202-0202-0202-020202020202", .request = 0.125},
            {.name = "gone", .gpu = "GPU-02020202-0202-0202-0202-020202020202", .request = 0.5, .is_in_force = false}};
  Connect();
  const NodeBeat beat = core->Beat(Now());
  ASSERT_EQ(beat.others.size(), 2u);
  EXPECT_DOUBLE_EQ(beat.others[0].share, 0.76);
  EXPECT_EQ(beat.others[0].memory_bytes, uint64_t{32 << 20});
  EXPECT_DOUBLE_EQ(beat.others[1].share, 0.125);
  EXPECT_EQ(beat.others[1].memory_bytes, uint64_t{40 << 20});
  ASSERT_EQ(beat.grants.size(), 1u);
  EXPECT_EQ(beat.grants[0].sessions, 2u);
  EXPECT_FALSE(beat.grants[0].is_held);
}

// The broker lets in what fits beside all grants: the placer is to know that it has gone.
TEST_F(NodeCoreTest, ContextsBeyondThoseOfAGrantAreTaken) {
  Ticket ticket = TicketOf(0xa1);
  ticket.processes = 3;
  Give({1, Kind::kHold, Id(0xa1), signer.Sign(ticket), kPlacer + 60'000});
  EXPECT_EQ(vgpus.at(Name(0xa1, 0)).processes, 3u);
  others = {{.name = "a", .gpu = kFirstGpu, .memory_bytes = 10 << 20, .processes = 4, .sessions = 9}};
  Connect();  // two sessions in the grant's
  EXPECT_EQ(core->Beat(Now()).others[0].memory_bytes, uint64_t{14 << 20});
  vgpu_processes = 1;
  Connect();
  EXPECT_EQ(core->Beat(Now()).others[0].memory_bytes, uint64_t{15 << 20});
}

TEST_F(NodeCoreTest, OneWriteIsAllThatManyOrdersWaitFor) {
  const uint64_t before = store->revision();
  for (uint8_t i = 1; i <= 8; ++i) core->Take(Hold(i, i));
  Turn();
  for (uint8_t i = 1; i <= 8; ++i) EXPECT_EQ(Answer(i), "done");
  EXPECT_EQ(store->revision(), before + 1);
}

}  // namespace
}  // namespace tessera
