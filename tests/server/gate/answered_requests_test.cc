#include "server/gate/answered_requests.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tessera {
namespace {

std::vector<std::byte> Encoded(const AnsweredRequests& requests) {
  Encoder out;
  requests.Encode(out);
  return {out.bytes().begin(), out.bytes().end()};
}

AnsweredRequest Request(const std::string& holder, size_t number, size_t answer_bytes = 10) {
  return {holder, std::to_string(number), number, std::string(answer_bytes, 'x')};
}

TEST(AnsweredRequests, WhatWasAnsweredIsFoundByHolderAndId) {
  AnsweredRequests requests;
  requests.Add(Request("uid:0", 7));
  ASSERT_NE(requests.Find("uid:0", "7"), nullptr);
  EXPECT_EQ(*requests.Find("uid:0", "7"), Request("uid:0", 7));
  EXPECT_EQ(requests.Find("uid:1", "7"), nullptr);
  EXPECT_EQ(requests.Find("uid:0", "8"), nullptr);
  // The same id once more.
  requests.Add({"uid:0", "7", 9, "other"});
  EXPECT_EQ(requests.Find("uid:0", "7")->answer, "other");
  EXPECT_EQ(requests.bytes(), requests.Find("uid:0", "7")->bytes());
}

TEST(AnsweredRequests, TheNewestOfAHolderAreKept) {
  AnsweredRequests requests;
  requests.Add(Request("uid:1", 0));
  for (size_t i = 0; i < AnsweredRequests::kOfHolderMax + 2; ++i) requests.Add(Request("uid:0", i));
  EXPECT_EQ(requests.Find("uid:0", "1"), nullptr);
  EXPECT_NE(requests.Find("uid:0", "2"), nullptr);
  EXPECT_NE(requests.Find("uid:1", "0"), nullptr);
}

// Whoever has answers of many bytes loses his own.
TEST(AnsweredRequests, AllTogetherAreBounded) {
  AnsweredRequests requests;
  for (size_t i = 0; i < 100; ++i) requests.Add(Request("uid:1", i));
  for (size_t i = 0; i < 100; ++i) {
    requests.Add(Request("uid:0", i, AnsweredRequest::kAnswerBytesMax));
    ASSERT_LE(requests.bytes(), AnsweredRequests::kBytesMax);
    ASSERT_NE(requests.Find("uid:0", std::to_string(i)), nullptr);
  }
  EXPECT_EQ(requests.Find("uid:0", "95"), nullptr);
  EXPECT_NE(requests.Find("uid:0", "97"), nullptr);
  EXPECT_NE(requests.Find("uid:1", "0"), nullptr);
  // As many holders as there is room for, each with one.
  for (size_t i = 0; i < 10; ++i) requests.Add(Request("uid:" + std::to_string(10 + i), 0, AnsweredRequest::kAnswerBytesMax));
  EXPECT_LE(requests.bytes(), AnsweredRequests::kBytesMax);
}

TEST(AnsweredRequests, TheyComeThroughAndGoOnAlike) {
  AnsweredRequests requests;
  for (size_t i = 0; i < AnsweredRequests::kOfHolderMax; ++i) requests.Add(Request(i % 3 == 0 ? "name:boss" : "uid:0", i));
  Result<AnsweredRequests> read = AnsweredRequests::Decode(Encoded(requests));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, requests);
  for (size_t i = 0; i < AnsweredRequests::kOfHolderMax; ++i) {
    requests.Add(Request("uid:0", 10'000 + i));
    read->Add(Request("uid:0", 10'000 + i));
  }
  EXPECT_EQ(*read, requests);
}

TEST(AnsweredRequests, WhatIsNoneIsRefused) {
  AnsweredRequests requests;
  requests.Add(Request("uid:0", 1));
  requests.Add(Request("name:boss", 2));
  const std::vector<std::byte> bytes = Encoded(requests);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(AnsweredRequests::Decode(std::span(bytes).first(size)).status().code(), StatusCode::kProtocolViolation) << size;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(AnsweredRequests::Decode(longer).ok());
  std::mt19937 random(7);
  for (int i = 0; i < 2'000; ++i) {
    std::vector<std::byte> damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<std::byte>(1 << random() % 8);
    const Result<AnsweredRequests> read = AnsweredRequests::Decode(damaged);
    EXPECT_TRUE(!read.ok() || read.value().bytes() <= AnsweredRequests::kBytesMax);
  }
  AnsweredRequests nobodys;
  nobodys.Add({"", "1", 1, ""});
  EXPECT_FALSE(AnsweredRequests::Decode(Encoded(nobodys)).ok());
}

}  // namespace
}  // namespace tessera
