#include "netaware/ledger/grant_ledger.h"

#include <gtest/gtest.h>

#include "netaware/ledger/stored_grant.h"
#include "tests/netaware/store/around_store.h"
#include "tests/protocol/ticket/some_ticket.h"

namespace tessera {
namespace {

using Kind = LedgerOrder::Kind;
using State = LedgerGrant::State;
using Scene = TicketScene::Grant;

constexpr int64_t kNow = 1'800'000'000'000;

Ticket TicketOf(uint8_t grant, const char* holder = "name:alice") {
  Ticket ticket = SomeTicket();
  ticket.grant.fill(std::byte{grant});
  ticket.holder = holder;
  return ticket;
}
LedgerOrder Hold(uint8_t grant, uint64_t epoch = 3, const char* holder = "name:alice") {
  return {.kind = Kind::kHold, .epoch = epoch, .ticket = TicketOf(grant, holder), .until_ms = kNow + 60'000};
}
LedgerOrder Order(Kind kind, uint8_t grant, uint64_t epoch = 3, int64_t until_ms = 0) {
  LedgerOrder order{.kind = kind, .epoch = epoch, .until_ms = until_ms};
  order.ticket.grant.fill(std::byte{grant});
  return order;
}

// A store whose disk can be full.
class LittleStore : public AroundStore {
 public:
  std::vector<StoreResult> Commit(std::span<const StoreTransaction> transactions) override {
    commits += 1;
    if (full)
      return std::vector<StoreResult>(transactions.size(),
                                      {.outcome = StoreResult::Outcome::kFailed, .reason = "the disk is full"});
    return AroundStore::Commit(transactions);
  }

  bool full = false;
  int commits = 0;
};

class GrantLedgerTest : public ::testing::Test {
 protected:
  Status Carry(const LedgerOrder& order, int64_t now_ms = kNow) { return ledger->Carry({&order, 1}, now_ms).front(); }
  Scene StateOf(uint8_t grant, int64_t now_ms = kNow) { return ledger->StateOf(TicketOf(grant).grant, now_ms); }
  void OpenAgain() { ledger = std::move(GrantLedger::Open(store)).value(); }

  LittleStore store;
  std::unique_ptr<GrantLedger> ledger = std::move(GrantLedger::Open(store)).value();
};

TEST_F(GrantLedgerTest, AGrantIsHeldGrantedAndReleased) {
  EXPECT_EQ(StateOf(1), Scene::kUnknown);
  ASSERT_TRUE(Carry(Hold(1)).ok());
  EXPECT_EQ(StateOf(1), Scene::kHeld);
  ASSERT_TRUE(Carry(Order(Kind::kConfirm, 1)).ok());
  EXPECT_EQ(ledger->Find(TicketOf(1).grant)->state, State::kGranted);
  EXPECT_EQ(ledger->Find(TicketOf(1).grant)->ticket, TicketOf(1));
  ASSERT_TRUE(Carry(Order(Kind::kRelease, 1, 3, kNow + 600'000)).ok());
  EXPECT_EQ(StateOf(1), Scene::kReleased);
  EXPECT_TRUE(ledger->Expire(kNow + 599'999).empty());
  EXPECT_EQ(StateOf(1), Scene::kReleased);
  EXPECT_TRUE(ledger->Expire(kNow + 600'000).empty());
  EXPECT_EQ(StateOf(1), Scene::kUnknown);
}

TEST_F(GrantLedgerTest, AHoldThatNobodyConfirmsEndsAndAGrantDoesNot) {
  const LedgerOrder orders[] = {Hold(1), Hold(2), Order(Kind::kConfirm, 2)};
  ledger->Carry(orders, kNow);
  EXPECT_EQ(StateOf(1, kNow + 60'000), Scene::kUnknown);
  EXPECT_EQ(Carry(Order(Kind::kConfirm, 1), kNow + 60'000).code(), StatusCode::kNotFound);
  EXPECT_EQ(ledger->Expire(kNow + 60'000), (std::vector<Ticket::Grant>{TicketOf(1).grant}));
  EXPECT_TRUE(ledger->Expire(kNow + 60'000).empty());
  EXPECT_TRUE(ledger->Expire(kNow + 1'000'000'000).empty());
  EXPECT_EQ(StateOf(2, kNow + 1'000'000'000), Scene::kHeld);
}

TEST_F(GrantLedgerTest, OrdersThatComeAgainChangeNothing) {
  for (const LedgerOrder& order : {Hold(1), Order(Kind::kConfirm, 1), Hold(1), Order(Kind::kRelease, 1, 3, kNow + 5)}) {
    EXPECT_TRUE(Carry(order).ok());
    const uint64_t revision = store.revision();
    EXPECT_TRUE(Carry(order).ok());
    EXPECT_EQ(store.revision(), revision);
  }
  EXPECT_EQ(Carry(Order(Kind::kConfirm, 1)).message(), "the grant was released");
  // Tickets may be about a grant that never came here, too.
  EXPECT_TRUE(Carry(Order(Kind::kRelease, 9, 3, kNow + 5)).ok());
  EXPECT_EQ(StateOf(9), Scene::kReleased);
}

TEST_F(GrantLedgerTest, AGrantThatWasReleasedCanBeHeldAgainAndItsTicketsAreNotForgotten) {
  const int64_t last_ticket = kNow + 600'000;
  ASSERT_TRUE(Carry(Hold(1)).ok());
  ASSERT_TRUE(Carry(Order(Kind::kRelease, 1, 3, last_ticket)).ok());
  EXPECT_TRUE(Carry(Order(Kind::kCancel, 1)).ok());  // of no hold
  EXPECT_EQ(StateOf(1), Scene::kReleased);

  ASSERT_TRUE(Carry(Hold(1)).ok());
  OpenAgain();
  EXPECT_EQ(StateOf(1), Scene::kHeld);
  ASSERT_TRUE(Carry(Order(Kind::kCancel, 1)).ok());
  EXPECT_EQ(StateOf(1), Scene::kReleased);

  ASSERT_TRUE(Carry(Hold(1)).ok());
  EXPECT_EQ(StateOf(1, kNow + 60'000), Scene::kReleased);
  EXPECT_EQ(Carry(Order(Kind::kConfirm, 1), kNow + 60'000).message(), "the grant was released");
  EXPECT_EQ(ledger->Expire(kNow + 60'000), (std::vector<Ticket::Grant>{TicketOf(1).grant}));
  EXPECT_EQ(ledger->Find(TicketOf(1).grant)->state, State::kReleased);
  EXPECT_EQ(ledger->Find(TicketOf(1).grant)->until_ms, last_ticket);

  ASSERT_TRUE(Carry(Hold(1)).ok());
  ASSERT_TRUE(Carry(Order(Kind::kConfirm, 1)).ok());
  EXPECT_EQ(ledger->Find(TicketOf(1).grant)->state, State::kGranted);
  EXPECT_EQ(ledger->Find(TicketOf(1).grant)->released_until_ms, 0);
}

TEST_F(GrantLedgerTest, AHoldThatIsCancelledWasNeverThere) {
  ASSERT_TRUE(Carry(Hold(1)).ok());
  EXPECT_TRUE(Carry(Order(Kind::kCancel, 1)).ok());
  EXPECT_TRUE(Carry(Order(Kind::kCancel, 1)).ok());
  EXPECT_EQ(StateOf(1), Scene::kUnknown);
  const LedgerOrder again[] = {Hold(1), Order(Kind::kCancel, 1), Hold(1), Order(Kind::kConfirm, 1)};
  for (const Status& status : ledger->Carry(again, kNow)) EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(Carry(Order(Kind::kCancel, 1)).message(), "the grant was granted: it can be released");
  EXPECT_EQ(StateOf(1), Scene::kHeld);
}

TEST_F(GrantLedgerTest, WhatIsNotSoIsRefused) {
  ASSERT_TRUE(Carry(Hold(1)).ok());
  EXPECT_EQ(Carry(Hold(1, 3, "name:bob")).message(), "a grant of that number is name:alice's, or has something else here");
  EXPECT_EQ(Carry(Order(Kind::kConfirm, 2)).message(), "the grant is not held here, or its hold has ended");
}

TEST_F(GrantLedgerTest, AnOlderEpochOrdersNothing) {
  ASSERT_TRUE(Carry(Hold(1, 5)).ok());
  for (const LedgerOrder& order : {Hold(2, 4), Order(Kind::kConfirm, 1, 4), Order(Kind::kRelease, 1, 4)}) {
    EXPECT_EQ(Carry(order).message(), "the order is of epoch 4 of the placer, and 5 was seen: another placer has taken over");
  }
  EXPECT_EQ(ledger->grants().size(), 1u);
  OpenAgain();
  EXPECT_EQ(ledger->newest_epoch(), 5u);
  EXPECT_FALSE(Carry(Hold(2, 4)).ok());
  EXPECT_TRUE(Carry(Hold(2, 6)).ok());
}

TEST_F(GrantLedgerTest, ManyOrdersAreOneWrite) {
  const LedgerOrder orders[] = {Hold(1), Order(Kind::kConfirm, 1), Hold(2), Order(Kind::kConfirm, 3),
                                Order(Kind::kRelease, 2, 3, kNow + 9)};
  const int before = store.commits;
  std::vector<StatusCode> codes;
  for (const Status& status : ledger->Carry(orders, kNow)) codes.push_back(status.code());
  EXPECT_EQ(codes, (std::vector{StatusCode::kOk, StatusCode::kOk, StatusCode::kOk, StatusCode::kNotFound, StatusCode::kOk}));
  EXPECT_EQ(store.commits, before + 1);
  EXPECT_EQ(StateOf(1), Scene::kHeld);
  EXPECT_EQ(StateOf(2), Scene::kReleased);
}

TEST_F(GrantLedgerTest, IsThereAgain) {
  const LedgerOrder orders[] = {Hold(1), Hold(2), Order(Kind::kConfirm, 2), Hold(3), Order(Kind::kRelease, 3, 3, kNow + 9)};
  ledger->Carry(orders, kNow);
  const auto before = ledger->grants();
  OpenAgain();
  EXPECT_EQ(ledger->grants(), before);
  EXPECT_EQ(ledger->grants().size(), 3u);
}

TEST_F(GrantLedgerTest, AStoreThatFailsChangesNothing) {
  ASSERT_TRUE(Carry(Hold(1)).ok());
  const auto before = ledger->grants();
  store.full = true;
  const LedgerOrder orders[] = {Order(Kind::kConfirm, 1, 4), Hold(2, 4), Order(Kind::kConfirm, 3, 4)};
  std::vector<StatusCode> codes;
  for (const Status& status : ledger->Carry(orders, kNow)) codes.push_back(status.code());
  EXPECT_EQ(codes, (std::vector{StatusCode::kResourceExhausted, StatusCode::kResourceExhausted, StatusCode::kNotFound}));
  EXPECT_TRUE(ledger->Expire(kNow + 100'000).empty());
  EXPECT_EQ(ledger->grants(), before);
  EXPECT_EQ(ledger->newest_epoch(), 3u);
  store.full = false;
  EXPECT_EQ(ledger->Expire(kNow + 100'000).size(), 1u);
}

TEST_F(GrantLedgerTest, WhatIsDamagedIsNotOpened) {
  ASSERT_TRUE(Carry(Hold(1)).ok());
  const std::string key = KeyOf(TicketOf(1).grant), whole = store.Get(key)->value;
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(StoredGrant(whole.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(StoredGrant(whole + 'x').ok());
  LedgerGrant released{.state = State::kReleased, .until_ms = 7};
  for (size_t size = 0; size < StoredForm(released).size(); ++size)
    EXPECT_FALSE(StoredGrant(StoredForm(released).substr(0, size)).ok());
  EXPECT_EQ(StoredGrant(StoredForm(released)).value(), released);
  for (size_t size = 0; size < StoredForm(uint64_t{3}).size(); ++size)
    EXPECT_FALSE(StoredEpoch(StoredForm(uint64_t{3}).substr(0, size)).ok());
  const auto opened_with = [&](const std::string& under, const std::string& value) {
    const StoreTransaction put{.changes = {{under, value}}};
    store.Commit({&put, 1});
    return GrantLedger::Open(store).status();
  };
  EXPECT_EQ(opened_with(KeyOf(TicketOf(2).grant), whole).code(), StatusCode::kInvalidArgument);  // another's
  EXPECT_TRUE(opened_with(key, "x").message().starts_with("the ledger of this server's grants is damaged at 'grants/0101"));
}

TEST_F(GrantLedgerTest, AHoldOfTheSameByATicketSignedAnewIsTheSame) {
  ASSERT_TRUE(Carry(Hold(1)).ok());
  LedgerOrder anew = Hold(1, 4);
  anew.ticket.epoch = 4;
  anew.ticket.renewal += 1;
  anew.ticket.issued_ms += 5'000;
  anew.ticket.expires_ms += 5'000;
  anew.until_ms += 5'000;
  ASSERT_TRUE(Carry(anew).ok());
  EXPECT_EQ(ledger->Find(anew.ticket.grant)->ticket, anew.ticket);
  EXPECT_EQ(ledger->Find(anew.ticket.grant)->until_ms, anew.until_ms);
  ASSERT_TRUE(Carry(Order(Kind::kConfirm, 1, 4)).ok());
  EXPECT_TRUE(Carry(Hold(1, 4)).ok());  // granted it stays
  EXPECT_EQ(ledger->Find(anew.ticket.grant)->state, State::kGranted);
  EXPECT_EQ(ledger->Find(anew.ticket.grant)->ticket, anew.ticket);
  anew.ticket.vgpus[0].request += 1;
  EXPECT_EQ(Carry(anew).code(), StatusCode::kInvalidArgument);
}

TEST_F(GrantLedgerTest, AnEpochThatWasSeenIsKept) {
  ASSERT_TRUE(ledger->See(5).ok());
  ASSERT_TRUE(ledger->See(5).ok());
  EXPECT_EQ(store.commits, 1);
  OpenAgain();
  EXPECT_EQ(ledger->newest_epoch(), 5);
  EXPECT_EQ(ledger->See(4).code(), StatusCode::kPermissionDenied);
  store.full = true;
  EXPECT_EQ(ledger->See(6).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ledger->newest_epoch(), 5);
}

}  // namespace
}  // namespace tessera
