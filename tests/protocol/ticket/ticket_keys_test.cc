#include "protocol/ticket/ticket_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/protocol/ticket/some_ticket.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

class TicketKeysTest : public testing::Test {
 protected:
  TicketKeysTest() { EXPECT_EQ(keys_.Add(signer_.PublicPem()).value(), signer_.key_id()); }

  void ExpectRefused(const Bytes& bytes, StatusCode code, const std::string& words) {
    const Status status = keys_.Open(bytes).status();
    EXPECT_EQ(status.code(), code) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(words));
  }

  const TicketSigner signer_ = TicketSigner::Make().value();
  TicketKeys keys_;
  const Bytes bytes_ = signer_.Sign(SomeTicket());
};

TEST_F(TicketKeysTest, WhatWasSignedIsBelieved) { EXPECT_EQ(keys_.Open(bytes_).value(), SomeTicket()); }

TEST_F(TicketKeysTest, AKeyThatWasWrittenDownSignsOn) {
  const TicketSigner again = TicketSigner::FromPem(signer_.PrivatePem()).value();
  EXPECT_EQ(again.key_id(), signer_.key_id());
  EXPECT_EQ(again.PublicPem(), signer_.PublicPem());
  EXPECT_EQ(again.Sign(SomeTicket()), bytes_) << "Ed25519 uses no chance";
}

TEST_F(TicketKeysTest, EveryDamageIsSeen) {
  for (size_t at = 0; at < bytes_.size(); ++at) {
    Bytes damaged = bytes_;
    damaged[at] ^= std::byte{1};
    EXPECT_FALSE(keys_.Open(damaged).ok()) << at;
    EXPECT_FALSE(keys_.Open(std::span(bytes_).first(at)).ok()) << at;
  }
  Bytes longer = bytes_;
  longer.push_back(std::byte{0});
  ExpectRefused(longer, StatusCode::kPermissionDenied, "signature is wrong");
  ExpectRefused(Bytes(kTicketBytesMax + 1, std::byte{7}), StatusCode::kProtocolViolation, "this is no ticket");
  ExpectRefused({}, StatusCode::kProtocolViolation, "this is no ticket");
  ExpectRefused(Bytes(bytes_.begin(), bytes_.begin() + 40), StatusCode::kProtocolViolation, "cut off");
}

// Whoever signed it: to be shown to people.
TEST_F(TicketKeysTest, WhatIsReadUnproved) {
  EXPECT_EQ(ReadUnprovedTicket(TicketSigner::Make().value().Sign(SomeTicket())).value(), SomeTicket());
  for (size_t end = 0; end < bytes_.size(); ++end) EXPECT_FALSE(ReadUnprovedTicket(std::span(bytes_).first(end)).ok()) << end;
  EXPECT_EQ(ReadUnprovedTicket(Bytes(kTicketBytesMax + 1, std::byte{7})).status().code(), StatusCode::kProtocolViolation);
}

TEST_F(TicketKeysTest, AnotherVersionIsNamed) {
  Bytes other = bytes_;
  const uint32_t version = 3;
  std::memcpy(&other[4], &version, sizeof(version));
  ExpectRefused(other, StatusCode::kVersionMismatch, "version 3, and this server takes version 2");
}

TEST_F(TicketKeysTest, KeysChangeWhileOldTicketsLive) {
  const TicketSigner next = TicketSigner::Make().value();
  ExpectRefused(next.Sign(SomeTicket()), StatusCode::kPermissionDenied, "which is no key of this server's placer");
  ASSERT_TRUE(keys_.Add(next.PublicPem()).ok());
  EXPECT_TRUE(keys_.Open(next.Sign(SomeTicket())).ok());
  EXPECT_TRUE(keys_.Open(bytes_).ok());
  keys_.Remove(signer_.key_id());
  EXPECT_FALSE(keys_.Has(signer_.key_id()));
  ExpectRefused(bytes_, StatusCode::kPermissionDenied, "which is no key of this server's placer");
  EXPECT_TRUE(keys_.Open(next.Sign(SomeTicket())).ok());
}

TEST_F(TicketKeysTest, AForgerDoesNotPassAsAnotherKey) {
  const TicketSigner forger = TicketSigner::Make().value();
  Bytes forged = forger.Sign(SomeTicket());
  const uint64_t id = signer_.key_id();
  std::memcpy(&forged[8], &id, sizeof(id));
  ExpectRefused(forged, StatusCode::kPermissionDenied, "signature is wrong");
}

TEST_F(TicketKeysTest, WhatIsNoKeyIsRefused) {
  constexpr char kRsa[] =
      "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAMq2YxV1c0W8x3bC8h1uJmQ0bq9lXq1m\n"
      "0wq8bC4hQwJ3zv0kq0m4m8Yw2x8a1bZ1f4o6n3r1u8k5d2s7c9t0e3kCAwEAAQ==\n-----END PUBLIC KEY-----\n";
  for (const std::string& pem : {std::string(), std::string("no key"), std::string(kRsa), signer_.PrivatePem()}) {
    EXPECT_EQ(keys_.Add(pem).status().code(), StatusCode::kInvalidArgument);
  }
  for (const std::string& pem : {std::string(), std::string("no key"), signer_.PublicPem()}) {
    EXPECT_EQ(TicketSigner::FromPem(pem).status().code(), StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tessera
