#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "netaware/node/node_core.h"
#include "tests/netaware/node/some_node.h"

namespace tessera {
namespace {

using Kind = NodeOrder::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NodeTicketsTest : public NodeTest {
 protected:
  NodeTicketsTest() {
    Connect();
    Welcome();
    Give(Hold(1, 0xa1));
    Give(Order(2, Kind::kConfirm, 0xa1));
  }
  StatusCode code() const { return codes.at(shown); }
};

TEST_F(NodeTicketsTest, ATicketOpensItsVgpus) {
  EXPECT_EQ(Show(0xa1), Names(0xa1));
  EXPECT_EQ(Show(0xa1), Names(0xa1));
  // A later one of the same grant, and one that has expired: the grant is in the ledger.
  Ticket ticket = TicketOf(0xa1);
  ticket.renewal = 7;
  EXPECT_EQ(Show(signer.Sign(ticket)), Names(0xa1));
  Pass(3'600'000);
  EXPECT_EQ(Show(0xa1), Names(0xa1));
}

TEST_F(NodeTicketsTest, ATicketThatIsNoneIsRefusedAndTheSentenceSaysWhich) {
  Ticket ticket = TicketOf(0xa1);
  EXPECT_THAT(Show(signer.Sign(ticket), "name:bob"), HasSubstr("this client is name:bob"));
  EXPECT_EQ(code(), StatusCode::kPermissionDenied);
  ticket.server = "gpu8";
  EXPECT_THAT(Show(signer.Sign(ticket)), HasSubstr("for the server 'gpu8'"));
  ticket = TicketOf(0xa1);
  ticket.cluster = "east";
  EXPECT_THAT(Show(signer.Sign(ticket)), HasSubstr("of the cluster 'east'"));
  ticket = TicketOf(0xa1);
  ticket.issued_ms += 60'000;
  EXPECT_THAT(Show(signer.Sign(ticket)), HasSubstr("from now"));
  const TicketSigner stranger = std::move(TicketSigner::Make()).value();
  Show(stranger.Sign(TicketOf(0xa1)));
  EXPECT_EQ(code(), StatusCode::kPermissionDenied);
  const std::vector<std::byte> whole = signer.Sign(TicketOf(0xa1));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    Show({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes)});
    EXPECT_NE(code(), StatusCode::kOk) << bytes;
  }
  std::vector<std::byte> forged = whole;
  forged[40] ^= std::byte{1};
  Show(forged);
  EXPECT_EQ(code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(made, 2);
}

TEST_F(NodeTicketsTest, AReleasedGrantsTicketIsRefused) {
  Give(Order(3, Kind::kRelease, 0xa1));
  EXPECT_THAT(Show(0xa1), HasSubstr("released"));
  EXPECT_THAT(There(), IsEmpty());
  Start();  // and after a restart
  Connect();
  EXPECT_THAT(Show(0xa1), HasSubstr("released"));
  Pass(600'000);  // then it has expired
  EXPECT_THAT(Show(0xa1), HasSubstr("expired"));
}

TEST_F(NodeTicketsTest, TicketsAreCheckedWhileThePlacerIsAwayAlsoAfterARestart) {
  core->PlacerLost();
  EXPECT_EQ(Show(0xa1), Names(0xa1));
  passed_ms += 3'600'000;  // this host's clock is 1,000 s behind the placer's
  Start();
  Connect();
  EXPECT_EQ(Show(0xa1), Names(0xa1));
  EXPECT_THAT(Show(0xa2), HasSubstr("expired 3000.0 s ago"));
}

TEST_F(NodeTicketsTest, KeysOfAnOlderPlacerDoNotCountAndThoseOfANewerOneDo) {
  const TicketSigner other = std::move(TicketSigner::Make()).value();
  EXPECT_FALSE(core->Welcomed({"west", 2, {other.PublicPem()}, kPlacer}, Now()).ok());
  EXPECT_EQ(Show(0xa1), Names(0xa1));
  Show(other.Sign(TicketOf(0xa1)));
  EXPECT_EQ(code(), StatusCode::kPermissionDenied);
  ASSERT_TRUE(core->Welcomed({"west", 4, {other.PublicPem()}, kPlacer}, Now()).ok());
  EXPECT_EQ(Show(other.Sign(TicketOf(0xa1))), Names(0xa1));
  Show(0xa1);
  EXPECT_EQ(code(), StatusCode::kPermissionDenied);
}

TEST_F(NodeTicketsTest, AServerThatHasMetNoPlacerTakesNoTicket) {
  store = MakeMemoryStore();
  Start();
  Connect();
  EXPECT_THAT(Show(0xa1), HasSubstr("no placer"));
  EXPECT_EQ(code(), StatusCode::kUnavailable);
}

TEST_F(NodeTicketsTest, AGrantThatTheLedgerHasLostIsTakenIn) {
  EXPECT_EQ(Show(0xa2), Names(0xa2));
  EXPECT_EQ(There().size(), 4u);
  EXPECT_FALSE(core->Beat(Now()).grants.back().is_held);
  refused = {Name(0xa3, 1)};
  EXPECT_EQ(Show(0xa3), "it is 5 % too much");
  EXPECT_EQ(There().size(), 4u);
  EXPECT_EQ(store->Range("grants/").size(), 2u);
  // A grant of an older placer may have been released since.
  Welcome(4);
  EXPECT_THAT(Show(0xa4), HasSubstr("epoch 3"));
  EXPECT_EQ(Show(signer.Sign(TicketOf(0xa4, 4))), Names(0xa4));
}

TEST_F(NodeTicketsTest, ATicketWaitsForItsVgpusAndIsAnsweredInTime) {
  core->BrokerLost();
  EXPECT_EQ(Show(0xa1), "");
  Pass(1'000);
  Connect();
  EXPECT_EQ(Shown(shown), Names(0xa1));
  core->BrokerLost();
  EXPECT_EQ(Show(0xa1), "");
  EXPECT_EQ(Show(0xa2), "");  // one to be taken in
  EXPECT_LE(next_ms, kSteady + passed_ms + 4'000);
  Pass(NodeCore::kTicketMs);
  EXPECT_THAT(Shown(shown - 1), HasSubstr("broker does not answer"));
  EXPECT_THAT(Shown(shown), HasSubstr("broker does not answer"));
  EXPECT_EQ(store->Range("grants/").size(), 1u);
}

TEST_F(NodeTicketsTest, AReleaseAnswersTicketsThatWait) {
  core->BrokerLost();
  EXPECT_EQ(Show(0xa1), "");
  Give(Order(3, Kind::kRelease, 0xa1));
  EXPECT_THAT(Shown(shown), HasSubstr("released"));
  EXPECT_EQ(Answer(3), "done");
}

TEST_F(NodeTicketsTest, TicketsThatWaitAreBounded) {
  core->BrokerLost();
  const std::vector<std::byte> ticket = signer.Sign(TicketOf(0xa1));
  for (size_t i = 0; i < NodeCore::kTicketsMax; ++i) core->Ask({++shown, "name:alice", ticket}, Now());
  EXPECT_TRUE(tickets.empty());
  EXPECT_THAT(Show(ticket), HasSubstr("too many"));
  core->DaemonLost();
  EXPECT_EQ(Show(ticket), "");
}

}  // namespace
}  // namespace tessera
