// Messages between broker and keeper: what is sent arrives, and any other bytes are refused.
#include "server/usage/usage_line.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/server/usage/usage_fixture.h"

namespace tessera {
namespace {

template <typename Message>
std::vector<std::byte> Bytes(const Message& message) {
  Encoder out(kUsageMessageBytesMax);
  message.Encode(out);
  return {out.bytes().begin(), out.bytes().end()};
}

// Every prefix is refused, and no change of it does harm.
template <typename Message>
void Torture(const Message& message) {
  const std::vector<std::byte> bytes = Bytes(message);
  ASSERT_TRUE(Message::Decode(bytes).ok());
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(Message::Decode(std::span(bytes).first(size)).ok());
  std::mt19937 random(7);
  for (int i = 0; i < 5'000; ++i) {
    std::vector<std::byte> changed = bytes;
    for (int change = 0; change < 4; ++change) changed[random() % changed.size()] = static_cast<std::byte>(random());
    if (Result<Message> decoded = Message::Decode(changed); decoded.ok()) Bytes(*decoded);
  }
}

UsageAnswer Example() {
  UsageAnswer answer;
  answer.id = 7;
  answer.rows = {{"a", "GPU-1", 60, 59, {1, 2, 3, 4, 5, {6, 7, 8, 9, 10, 11, 12, 13}}}};
  answer.goes_on = true;
  return answer;
}

TEST(UsageLine, WhatIsSentArrives) {
  const UsageBatch batch{12,
                         {UsageRecord("a", {1, 2, 3, 4, 5, {6, 7, 8, 9, 10, 11, 12, 13}}, "uid:1,name:x"), UsageRecord("b", {})}};
  Result<UsageBatch> records = UsageBatch::Decode(Bytes(batch));
  ASSERT_TRUE(records.ok());
  EXPECT_EQ(records->second, 12);
  EXPECT_EQ(records->records, batch.records);

  UsageQuery query = UsageOf("a", 1, 2, 3600);
  query.id = 9;
  query.holder = "uid:1";
  query.sees_all = false;
  Result<UsageQuery> asked = UsageQuery::Decode(Bytes(query));
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(std::tie(asked->id, asked->name, asked->since, asked->until, asked->bucket_s, asked->holder, asked->sees_all),
            std::tie(query.id, query.name, query.since, query.until, query.bucket_s, query.holder, query.sees_all));

  Result<UsageAnswer> answer = UsageAnswer::Decode(Bytes(Example()));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->rows, Example().rows);
  EXPECT_TRUE(answer->goes_on);
}

TEST(UsageLine, OtherBytesAreRefused) {
  Torture(UsageBatch{12, {UsageRecord("a", {1, 2, 3, 4, 5}), UsageRecord("b", {})}});
  Torture(UsageOf("a"));
  Torture(Example());
  EXPECT_FALSE(UsageBatch::Decode(Bytes(Example())).ok());
  EXPECT_EQ(UsageWordOf(Bytes(Example())), UsageWord::kAnswer);
  EXPECT_EQ(UsageWordOf({}), UsageWord::kNone);
}

}  // namespace
}  // namespace tessera
