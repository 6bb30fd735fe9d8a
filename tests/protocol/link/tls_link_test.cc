// TLS on the wire: what OpenSSL by itself makes of it, and what the link makes of bytes that are cut off, changed or made up.
#include "protocol/link/tls/tls_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "protocol/link/preamble.h"
#include "protocol/link/tls/tls_handshake.h"
#include "protocol/link/tls/tls_stream.h"
#include "tests/support/raw_tls_peer.h"
#include "tests/support/tls_pair.h"

namespace tessera {
namespace {

using testing::HasSubstr;

std::string Words(const auto& object) { return std::string(reinterpret_cast<const char*>(&object), sizeof(object)); }

Result<FrameHeader> Take(Link& link, std::string* payload) {
  return link.Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> {
    payload->resize(header.bytes);
    return std::as_writable_bytes(std::span(*payload));
  });
}

// Two ends of a TCP connection.
std::pair<UniqueFd, UniqueFd> MakeSockets() {
  Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
  UniqueFd near = ConnectTcpSocket(listener->address(), false, Soon()).value();
  return {std::move(near), AwaitConnection(*listener).value()};
}

// A link that a gateway accepted, with records of ours or (as the parameter says) of OpenSSL's, and a client that is OpenSSL
// alone, after the preambles.
class TlsInterop : public testing::TestWithParam<bool> {
 protected:
  TlsInterop() {
    static TlsCrew& crew = *new TlsCrew(2);  // as in tls_pair.h
    const TlsTuning tuning = {.records_per_key = 3, .crew = &crew, .openssl = GetParam()};
    signal(SIGPIPE, SIG_IGN);
    auto [near, far] = MakeSockets();
    peer_ = std::make_unique<RawTlsPeer>(std::move(near), false,
                                         SignCertificate(authority_.pair(), TestAuthority::RequestOf("bob", false)).value());
    std::shared_ptr<const TlsIdentity> identity = TlsIdentity::Load(TlsRole::kServer, authority_.Server()).value();
    Result<AcceptedLink> accepted = Status(StatusCode::kInternal, "");
    std::thread accepting(
        [&, far = std::move(far)]() mutable { accepted = AcceptTls(std::move(far), *identity, Soon(), tuning); });
    EXPECT_TRUE(peer_->ShakeHands() && peer_->Send(Words(Preamble{})));
    EXPECT_EQ(peer_->Receive(sizeof(Preamble)), Words(Preamble{}));
    accepting.join();
    EXPECT_TRUE(accepted.ok()) << accepted.status().message();
    link_ = std::move(accepted->link);
  }

  const TestAuthority authority_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<RawTlsPeer> peer_;  // goes first: the link would wait for it
};

INSTANTIATE_TEST_SUITE_P(Records, TlsInterop, testing::Bool(), [](const auto& info) { return info.param ? "openssl" : "own"; });

TEST_P(TlsInterop, BothSidesUnderstandRecordsAndNewKeys) {
  std::string payload(40'000, 'x');
  for (uint64_t i = 0; i < 20; ++i) {
    const FrameHeader header = {FrameKind::kRing, 1, payload.size(), 0, i};
    // From the link, which takes new keys every three records; and to it, with new keys that OpenSSL asks for on both sides.
    std::thread sending([&] { EXPECT_TRUE(link_->Send(header, std::as_bytes(std::span(payload))).ok()); });
    EXPECT_EQ(peer_->Receive(sizeof(header)), Words(header));
    EXPECT_EQ(peer_->Receive(payload.size()), payload);
    sending.join();
    if (i % 3 == 0) {
      EXPECT_TRUE(peer_->RequestNewKeys());
    }
    std::thread answering([&] { EXPECT_TRUE(peer_->Send(Words(header)) && peer_->Send(payload)); });
    std::string got;
    EXPECT_EQ(Take(*link_, &got).value().number, i);
    EXPECT_EQ(got, payload);
    answering.join();
    std::fill(payload.begin(), payload.end(), static_cast<char>('a' + i));
  }
}

TEST_P(TlsInterop, AGoodbyeIsAnEnd) {
  peer_->SayGoodbye();
  std::string got;
  const Status status = Take(*link_, &got).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("was closed"));
}

TEST_P(TlsInterop, AnEndWithoutAGoodbyeIsACut) {
  peer_->Cut();
  std::string got;
  for (int i = 0; i < 2; ++i) {
    const Status status = Take(*link_, &got).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("was cut"));
  }
}

TEST_P(TlsInterop, TheLinkSaysGoodbyeBehindWhatItSent) {
  const FrameHeader header = {FrameKind::kRing, 1, 0, 0, 7};
  ASSERT_TRUE(link_->Send(header, {}).ok());
  std::thread closing([&] { link_.reset(); });
  EXPECT_EQ(peer_->Receive(sizeof(header) + 1), Words(header));
  EXPECT_EQ(peer_->alert(), -1);
  peer_->SayGoodbye();
  peer_->Cut();
  closing.join();
}

TEST_P(TlsInterop, BytesInTheClearAreRefused) {
  ASSERT_EQ(send(peer_->socket(), "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  std::string got;
  EXPECT_EQ(Take(*link_, &got).status().code(), StatusCode::kProtocolViolation);
  EXPECT_EQ(Take(*link_, &got).status().code(), StatusCode::kProtocolViolation);
}

// --- handshakes in memory ---

class TlsHandshakes : public testing::Test {
 protected:
  TlsHandshakes()
      : client_(TlsIdentity::Load(TlsRole::kClient, authority_.Client()).value()),
        server_(TlsIdentity::Load(TlsRole::kServer, authority_.Server()).value()) {}

  TlsParties near() const { return {*client_, &address_}; }
  TlsParties far() const { return {*server_, nullptr}; }

  const TestAuthority authority_;
  const LinkAddress address_ = {"localhost", 1, LinkScheme::kTls};
  const std::shared_ptr<const TlsIdentity> client_, server_;
};

TEST_F(TlsHandshakes, BothSidesHaveTheSameSecretsAndSayWhoTheyAre) {
  TlsHandshake client(near()), server(far());
  ASSERT_TRUE(client.Take({}).ok());
  while (!client.done() || !server.done()) {
    const std::vector<std::byte> there = client.Outgoing();
    ASSERT_TRUE(there.empty() || server.Take(there).ok());
    const std::vector<std::byte> back = server.Outgoing();
    ASSERT_TRUE(back.empty() || client.Take(back).ok());
  }
  const TlsSession ours = client.Finish(), theirs = server.Finish();
  EXPECT_EQ(ours.sending.bytes, theirs.receiving.bytes);
  EXPECT_EQ(ours.receiving.bytes, theirs.sending.bytes);
  EXPECT_NE(ours.sending.bytes, ours.receiving.bytes);
  EXPECT_EQ(ours.peer.name, "gpu7");
  EXPECT_EQ(theirs.peer.name, "alice");
}

TEST_F(TlsHandshakes, BytesMayComeOneByOne) {
  TlsHandshake client(near()), server(far());
  ASSERT_TRUE(client.Take({}).ok());
  const auto feed = [](const std::vector<std::byte>& bytes, TlsHandshake& to) {
    for (const std::byte& one : bytes) ASSERT_TRUE(to.done() || to.Take(std::span(&one, 1)).ok());
  };
  while (!client.done() || !server.done()) {
    feed(client.Outgoing(), server);
    feed(server.Outgoing(), client);
  }
}

TEST_F(TlsHandshakes, PartsAndChangesOfOneNeverSucceed) {
  TlsHandshake client(near()), server(far());
  ASSERT_TRUE(client.Take({}).ok());
  const std::vector<std::byte> hello = client.Outgoing();
  ASSERT_TRUE(server.Take(hello).ok());
  const std::vector<std::byte> answer = server.Outgoing();
  for (size_t bytes = 0; bytes <= hello.size(); ++bytes) {
    TlsHandshake other(far());
    EXPECT_TRUE(other.Take(std::span(hello).first(bytes)).ok());
    EXPECT_FALSE(other.done());
  }
  for (size_t at = 0; at < hello.size(); ++at) {
    std::vector<std::byte> changed = hello;
    changed[at] ^= std::byte{0x41};
    TlsHandshake other(far());
    (void)other.Take(changed).ok();
    EXPECT_FALSE(other.done());
  }
  // The answer to another one's hello.
  for (size_t bytes = 0; bytes <= answer.size(); bytes += 7) {
    TlsHandshake other(near());
    (void)other.Take({}).ok();
    (void)other.Take(std::span(answer).first(bytes)).ok();
    EXPECT_FALSE(other.done());
  }
}

TEST_F(TlsHandshakes, GarbageIsRefused) {
  std::minstd_rand random(11);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::byte> garbage(random() % 4000 + 6);
    for (std::byte& one : garbage) one = static_cast<std::byte>(random());
    if (i % 2 == 0) std::memcpy(garbage.data(), "\x16\x03\x01\x0f", 4);  // begins as a handshake does
    TlsHandshake server(far());
    (void)server.Take(garbage).ok();
    EXPECT_FALSE(server.done());
  }
}

// --- peers that shake hands badly ---

TEST_F(TlsHandshakes, PlainTcpAndTlsTellEachOther) {
  // A plain client at a gateway of TLS.
  Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
  Status near_status;
  std::thread connecting([&] { near_status = ConnectTcp(listener->address(), false, Soon()).status(); });
  Status far_status = AcceptTls(AwaitConnection(*listener).value(), *server_, Soon()).status();
  connecting.join();
  EXPECT_THAT(near_status.message(), HasSubstr("speaks TLS: write tls://"));
  EXPECT_THAT(far_status.message(), HasSubstr("the peer speaks plain TCP"));
  // And the other way round.
  std::thread securely([&] {
    near_status = ConnectTls({"127.0.0.1", listener->address().port, LinkScheme::kTls}, authority_.Client(), Soon()).status();
  });
  far_status = AcceptTcp(AwaitConnection(*listener).value(), Soon()).status();
  securely.join();
  EXPECT_THAT(near_status.message(), HasSubstr("speaks plain TCP"));
  EXPECT_THAT(far_status.message(), HasSubstr("the peer speaks TLS"));
}

TEST_F(TlsHandshakes, APeerThatSaysTooLittleIsDroppedInTime) {
  TlsHandshake client(near());
  ASSERT_TRUE(client.Take({}).ok());
  const std::vector<std::byte> hello = client.Outgoing();
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5}, hello.size() - 1, hello.size()}) {
    auto [near, far] = MakeSockets();
    ASSERT_EQ(send(near.get(), hello.data(), bytes, 0), static_cast<ssize_t>(bytes));
    const uint64_t begin_ns = MonotonicNs();
    EXPECT_EQ(AcceptTls(std::move(far), *server_, begin_ns + 50'000'000).status().code(), StatusCode::kTimedOut) << bytes;
    EXPECT_LT(MonotonicNs() - begin_ns, 5'000'000'000u);
  }
  // One byte after the other does not make it longer.
  auto [near, far] = MakeSockets();
  std::thread trickling([&near = near] {
    while (send(near.get(), "\x16", 1, MSG_NOSIGNAL) == 1) usleep(5'000);
  });
  EXPECT_FALSE(AcceptTls(std::move(far), *server_, MonotonicNs() + 100'000'000).ok());
  trickling.join();
}

TEST_F(TlsHandshakes, ASilentGatewayIsGivenUp) {
  Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
  const LinkAddress address = {"127.0.0.1", listener->address().port, LinkScheme::kTls};
  const Status status = ConnectTls(address, authority_.Client(), MonotonicNs() + 50'000'000).status();
  EXPECT_EQ(status.code(), StatusCode::kTimedOut);
  EXPECT_THAT(status.message(), HasSubstr("no answer from " + address.Url()));
}

TEST_F(TlsHandshakes, SomebodyElseIsNoGateway) {
  for (const std::string_view words : {"HTTP/1.1 400 Bad Request\r\n\r\n", "220", ""}) {
    Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
    std::thread answering([&] {
      Result<UniqueFd> connection = AwaitConnection(*listener);
      EXPECT_EQ(send(connection->get(), words.data(), words.size(), MSG_NOSIGNAL), static_cast<ssize_t>(words.size()));
      shutdown(connection->get(), SHUT_WR);
      LingerOnSocket(connection->get());
    });
    const Status status =
        ConnectTls({"127.0.0.1", listener->address().port, LinkScheme::kTls}, authority_.Client(), Soon()).status();
    answering.join();
    EXPECT_EQ(status.code(), StatusCode::kProtocolViolation) << words;
    EXPECT_THAT(status.message(), HasSubstr("is no tessera-gateway")) << words;
  }
}

// --- records ---

TlsSession SessionOf(uint8_t secret) {
  TlsSession session;
  session.sending.bytes.fill(secret);
  session.receiving.bytes.fill(secret);
  return session;
}

// What a stream makes of `bytes`, which are all that comes: how much of `wanted` it gave, and how it ended.
size_t FillFrom(std::span<const std::byte> bytes, std::span<std::byte> wanted, Status* end) {
  auto [near, far] = MakeSockets();
  EXPECT_EQ(send(near.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  near.reset();
  TlsStream stream(TcpStream::Make(std::move(far)).value(), SessionOf(1), TuningOfTests());
  size_t got = 0;
  while ((*end = stream.Fill(wanted.subspan(got, 1))).ok()) ++got;
  return got;
}

TEST(TlsRecords, EveryPrefixGivesWholeRecordsAndThenIsACut) {
  TlsKeys keys(SessionOf(1).sending);
  const std::vector<std::byte> plain(10, std::byte{5});
  std::vector<std::byte> sealed(3 * (plain.size() + kTlsOverheadBytes));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(keys.Seal(TlsContent::kData, plain, {}, sealed.data() + i * (plain.size() + kTlsOverheadBytes)), sealed.size() / 3);
  std::vector<std::byte> got(100);
  for (size_t bytes = 0; bytes <= sealed.size(); ++bytes) {
    Status end;
    EXPECT_EQ(FillFrom(std::span(sealed).first(bytes), got, &end), bytes / (sealed.size() / 3) * plain.size());
    EXPECT_THAT(end.message(), HasSubstr("was cut"));
  }
}

TEST(TlsRecords, EveryChangedBitIsNoticed) {
  TlsKeys keys(SessionOf(1).sending);
  const std::vector<std::byte> plain(10, std::byte{5});
  std::vector<std::byte> sealed(plain.size() + kTlsOverheadBytes);
  keys.Seal(TlsContent::kData, plain, {}, sealed.data());
  std::vector<std::byte> got(100);
  for (size_t at = 0; at < sealed.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> changed = sealed;
      changed[at] ^= static_cast<std::byte>(1 << bit);
      Status end;
      EXPECT_EQ(FillFrom(changed, got, &end), 0u) << at;
      // A longer record than there is, or one that is none.
      EXPECT_TRUE(end.code() == StatusCode::kProtocolViolation || (at == 3 || at == 4)) << at << ": " << end.message();
    }
  }
}

TEST(TlsRecords, WhatIsRepeatedLeftOutOrOutOfOrderIsNoticed) {
  TlsKeys keys(SessionOf(1).sending);
  const std::vector<std::byte> plain(10, std::byte{5});
  std::vector<std::vector<std::byte>> records(3, std::vector<std::byte>(plain.size() + kTlsOverheadBytes));
  for (auto& record : records) keys.Seal(TlsContent::kData, plain, {}, record.data());
  std::vector<std::byte> got(100);
  for (const auto& [order, good] :
       {std::pair(std::vector{0, 0}, 1), {std::vector{0, 2}, 1}, {std::vector{1}, 0}, {std::vector{0, 1, 1}, 2}}) {
    std::vector<std::byte> bytes;
    for (const int i : order) bytes.insert(bytes.end(), records[i].begin(), records[i].end());
    Status end;
    EXPECT_EQ(FillFrom(bytes, got, &end), good * plain.size());
    EXPECT_EQ(end.code(), StatusCode::kProtocolViolation);
  }
}

TEST(TlsRecords, PaddingAndEmptyRecordsAreTaken) {
  // A padded record is one of its content, its type and zeros, sealed as if the last zero were its type (RFC 8446, 5.4).
  TlsKeys keys(SessionOf(1).sending);
  std::vector<std::byte> padded(10, std::byte{5});
  padded.push_back(static_cast<std::byte>(TlsContent::kData));
  padded.resize(200);
  std::vector<std::byte> bytes(padded.size() + 2 * kTlsOverheadBytes);
  const size_t first = keys.Seal(TlsContent::kNone, padded, {}, bytes.data());
  keys.Seal(TlsContent::kData, {}, {}, bytes.data() + first);
  std::vector<std::byte> got(100);
  Status end;
  EXPECT_EQ(FillFrom(bytes, got, &end), 10u);
  EXPECT_THAT(end.message(), HasSubstr("was cut"));
}

TEST(TlsRecords, OnlyTheseContentsBelong) {
  const struct {
    TlsContent content;
    std::vector<uint8_t> bytes;
    const char* sentence;
  } kRows[] = {{TlsContent::kNone, {}, "unknown kind"},
               {static_cast<TlsContent>(99), {1}, "unknown kind"},
               {TlsContent::kAlert, {1}, "an alert of another length"},
               {TlsContent::kAlert, {2, 80}, "TLS alert 80"},
               {TlsContent::kHandshake, {4, 0, 0, 1, 0}, "a handshake where none belongs"},
               {TlsContent::kHandshake, {24, 0, 0, 1, 2}, "a handshake where none belongs"},
               {TlsContent::kHandshake, {24, 0, 0, 1}, "was cut"},
               {TlsContent::kHandshake, {24, 0, 0, 1, 0}, "was cut"}};
  for (const auto& row : kRows) {
    TlsKeys keys(SessionOf(1).sending);
    std::vector<std::byte> record(row.bytes.size() + kTlsOverheadBytes);
    keys.Seal(row.content, std::as_bytes(std::span(row.bytes)), {}, record.data());
    std::vector<std::byte> got(100);
    Status end;
    EXPECT_EQ(FillFrom(record, got, &end), 0u);
    EXPECT_THAT(end.message(), HasSubstr(row.sentence));
  }
}

}  // namespace
}  // namespace tessera
