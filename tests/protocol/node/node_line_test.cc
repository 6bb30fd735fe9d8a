#include "protocol/node/node_line.h"

#include <gtest/gtest.h>

#include "protocol/wire/handshake.h"
#include "tests/protocol/wire/torture.h"

namespace tessera {
namespace {

TEST(NodeLine, MessagesStandTorture) {
  Torture(TicketQuestion{.id = 7, .holder = "name:alice", .ticket = std::vector<std::byte>(300, std::byte{5})});
  Torture(TicketAnswer{.id = 7, .code = StatusCode::kPermissionDenied, .sentence = "it has expired"});
  Torture(TicketAnswer{.id = 7, .vgpus = "grant-1-0+grant-1-1"});
}

TEST(NodeLine, MessagesComeAsTheyWere) {
  TicketQuestion question{.id = 9, .holder = "uid:1000", .ticket = std::vector<std::byte>(kHelloTicketBytesMax, std::byte{1})};
  Result<TicketQuestion> asked = TicketQuestion::Decode(Encoded(question));
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(asked->id, 9U);
  EXPECT_EQ(asked->holder, question.holder);
  EXPECT_EQ(asked->ticket, question.ticket);
  TicketAnswer refusal{.id = 9, .code = StatusCode::kTimedOut, .sentence = std::string(2 * kNodeSentenceBytesMax, 'x')};
  Result<TicketAnswer> refused = TicketAnswer::Decode(Encoded(refusal));
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(refused->code, StatusCode::kTimedOut);
  EXPECT_EQ(refused->sentence.size(), kNodeSentenceBytesMax);
}

TEST(NodeLine, WhatIsBeyondItsBoundsIsRefused) {
  TicketQuestion question{.id = 9, .holder = "uid:1000", .ticket = std::vector<std::byte>(kHelloTicketBytesMax + 1)};
  EXPECT_FALSE(TicketQuestion::Decode(Encoded(question)).ok());
  question = {.id = 9, .holder = "nobody known", .ticket = std::vector<std::byte>(1)};
  EXPECT_FALSE(TicketQuestion::Decode(Encoded(question)).ok());
  EXPECT_FALSE(TicketAnswer::Decode(Encoded(TicketAnswer{.id = 1})).ok());  // allowed, and nothing to have
}

}  // namespace
}  // namespace tessera
