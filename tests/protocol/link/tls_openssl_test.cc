// Records of ours and of OpenSSL, each read by the other: of every length, cut and changed everywhere, and what is no data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "protocol/link/tls/tls_openssl_stream.h"
#include "protocol/link/tls/tls_stream.h"
#include "tests/support/memory_tls_peer.h"
#include "tests/support/tls_pair.h"

namespace tessera {
namespace {

using testing::HasSubstr;

// A stream and the other end of its socket, where a test plays the network.
struct Wire {
  explicit Wire(const TlsSession& session, const TlsTuning& tuning = TuningOfTests()) {
    TcpListener listener = TcpListener::Bind({"127.0.0.1", 0}, false).value();
    socket = ConnectTcpSocket(listener.address(), false, MonotonicNs() + kTcpTestNs).value();
    std::unique_ptr<TcpStream> tcp = TcpStream::Make(AwaitConnection(listener).value()).value();
    if (tuning.openssl) {
      stream = std::make_unique<TlsOpensslStream>(std::move(tcp), session, tuning);
    } else {
      stream = std::make_unique<TlsStream>(std::move(tcp), session, tuning);
    }
  }
  void Bring(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    ASSERT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // So many bytes of what the stream sent; without a number, all until it ends.
  std::vector<std::byte> Take(size_t bytes = SIZE_MAX) {
    std::vector<std::byte> taken;
    std::vector<std::byte> some(size_t{64} << 10);
    while (taken.size() < bytes) {
      pollfd ready = {socket.get(), POLLIN, 0};
      if (poll(&ready, 1, static_cast<int>(kTcpTestNs / 1'000'000)) != 1) break;
      const ssize_t got = recv(socket.get(), some.data(), std::min(some.size(), bytes - taken.size()), 0);
      if (got <= 0) break;
      taken.insert(taken.end(), some.begin(), some.begin() + got);
    }
    return taken;
  }

  std::unique_ptr<TlsBytes> stream;
  UniqueFd socket;  // goes first: the stream would wait for what it still says to be taken
};

// What a stream gives of bytes of which the first came with the handshake, and how it ended.
std::string ReceiveAll(TlsSession session, std::span<const std::byte> bytes, size_t with_handshake, Status* end,
                       const TlsTuning& tuning = TuningOfTests()) {
  session.received.insert(session.received.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(with_handshake));
  Wire wire(session, tuning);
  wire.Bring(bytes.subspan(with_handshake));
  wire.socket.reset();
  std::string words;
  for (std::byte one; (*end = wire.stream->Fill(std::span(&one, 1))).ok();) words += static_cast<char>(one);
  return words;
}

std::string Counted(size_t bytes, size_t seed) {
  std::string words(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) words[i] = static_cast<char>((i * 31 + seed) >> 3);
  return words;
}

struct Sides {
  bool server;   // OpenSSL is, this side is the client
  bool openssl;  // this side has its records as well
};

class TlsOpenssl : public testing::TestWithParam<Sides> {
 protected:
  MemoryTlsPeer Peer() const { return MemoryTlsPeer(authority_, GetParam().server); }
  TlsTuning Tuning() const {
    TlsTuning tuning = TuningOfTests();
    tuning.openssl = GetParam().openssl;
    return tuning;
  }
  // Words, new keys, words and a goodbye.
  std::vector<std::byte> SayAll(MemoryTlsPeer& peer) const {
    std::vector<std::byte> bytes = peer.Say("first");
    const auto add = [&bytes](const std::vector<std::byte>& more) { bytes.insert(bytes.end(), more.begin(), more.end()); };
    EXPECT_EQ(SSL_key_update(peer.ssl(), SSL_KEY_UPDATE_REQUESTED), 1);
    add(peer.Say(words_.substr(5)));
    SSL_shutdown(peer.ssl());
    add(peer.Said());
    return bytes;
  }
  // An SSL object gives its records once: this side's own records need no other peer.
  void Again(std::unique_ptr<MemoryTlsPeer>* peer, std::vector<std::byte>* bytes) const {
    if (*peer && !GetParam().openssl) return;
    *peer = std::make_unique<MemoryTlsPeer>(authority_, GetParam().server);
    *bytes = SayAll(**peer);
  }

  const TestAuthority authority_;
  const std::string words_ = "first" + std::string(30, 's');
};
INSTANTIATE_TEST_SUITE_P(, TlsOpenssl,
                         testing::Values(Sides{false, false}, Sides{true, false}, Sides{false, true}, Sides{true, true}),
                         [](const auto& info) {
                           return std::string(info.param.server ? "server" : "client") +
                                  (info.param.openssl ? "_openssl" : "_own");
                         });

TEST_P(TlsOpenssl, RecordsOfEveryLengthAndNewKeysBothWays) {
  MemoryTlsPeer peer = Peer();
  TlsTuning tuning = Tuning();
  tuning.records_per_key = 777 / kTlsTestStep;
  Wire wire(peer.session(), tuning);
  const std::string all = Counted(kTlsPlainBytesMax, 5);
  std::vector<std::byte> got(kTlsPlainBytesMax);
  constexpr size_t kTurns = 500 / kTlsTestStep;
  size_t updates = 0, turn = 0;
  for (size_t i = 1; i <= kTlsPlainBytesMax; i += kTlsTestStep) {
    const size_t bytes = i % kTlsPlainBytesMax + 1;  // so that the longest are among them
    SSL_set_block_padding(peer.ssl(), bytes % 3 == 0 ? 1024 : 0);
    if (++turn % kTurns == 0) {
      ASSERT_EQ(SSL_key_update(peer.ssl(), turn % (2 * kTurns) == 0 ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED),
                1);
    }
    const std::string_view words = std::string_view(all).substr(0, bytes);
    wire.Bring(peer.Say(words));
    ASSERT_TRUE(wire.stream->Fill(std::span(got).first(bytes)).ok()) << bytes;
    ASSERT_EQ(std::string_view(reinterpret_cast<char*>(got.data()), bytes), words) << bytes;

    ASSERT_TRUE(wire.stream->Send(std::as_bytes(std::span(words)), {}).ok());
    std::string heard;
    while (heard.size() < bytes) {
      const std::vector<std::byte> record = wire.Take(kTlsHeaderBytes);
      ASSERT_EQ(record.size(), kTlsHeaderBytes);
      peer.Hear(record);
      const size_t body_bytes = TlsRecordBytes(record).value() - kTlsHeaderBytes;
      peer.Hear(wire.Take(body_bytes));
      const std::string some = peer.Heard();
      updates += some.empty() ? 1 : 0;
      heard += some;
    }
    ASSERT_EQ(heard, words);
  }
  // By their number, and as OpenSSL wanted.
  EXPECT_GE(updates, 30u);
}

TEST_P(TlsOpenssl, WhatIsCutAnywhereArrivesWhole) {
  std::unique_ptr<MemoryTlsPeer> peer;
  std::vector<std::byte> bytes;
  Again(&peer, &bytes);
  for (size_t cut = 0; cut <= bytes.size(); cut += GetParam().openssl ? 7 : kTlsTestStep, Again(&peer, &bytes)) {
    Status end;
    EXPECT_EQ(ReceiveAll(peer->session(), bytes, cut, &end, Tuning()), words_) << cut;
    EXPECT_THAT(end.message(), HasSubstr("was closed")) << cut;
  }
}

TEST_P(TlsOpenssl, AFlippedBitAnywhereIsAnErrorAndNeverOtherWords) {
  std::unique_ptr<MemoryTlsPeer> peer;
  std::vector<std::byte> bytes;
  Again(&peer, &bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); bit += GetParam().openssl ? 61 : kTlsTestStep, Again(&peer, &bytes)) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    Status end;
    const std::string got = ReceiveAll(peer->session(), bytes, bit % 2 == 0 ? bytes.size() : 0, &end, Tuning());
    EXPECT_EQ(got, words_.substr(0, got.size())) << bit;
    // A length that says more than comes looks like a cut.
    EXPECT_TRUE(end.code() == StatusCode::kProtocolViolation || end.message().find("was cut") != std::string::npos)
        << bit << ": " << end.message();
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

TEST_P(TlsOpenssl, AFlippedBitInBulkIsAnError) {
  if (GetParam().openssl) GTEST_SKIP() << "nothing is opened together";
  MemoryTlsPeer peer = Peer();
  const std::string words = Counted(12 * kTlsPlainBytesMax, 9);
  std::vector<std::byte> bytes = peer.Say(words);
  std::minstd_rand random(7);
  for (size_t i = 0; i < 100; i += kTlsTestStep) {
    const size_t bit = random() % (8 * bytes.size());
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    TlsSession session = peer.session();
    session.received.insert(session.received.end(), bytes.begin(), bytes.end());
    Wire wire(session);
    wire.socket.reset();
    std::vector<std::byte> got(words.size());
    const size_t before = bit / 8 / (bytes.size() / 12) * kTlsPlainBytesMax;
    EXPECT_TRUE(wire.stream->Fill(std::span(got).first(before)).ok());
    EXPECT_EQ(std::memcmp(got.data(), words.data(), before), 0);
    EXPECT_FALSE(wire.stream->Fill(std::span(got).subspan(before)).ok());
    bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

// --- alerts ---

TEST_P(TlsOpenssl, OpensslHearsWhatWasWrong) {
  const struct {
    size_t at;
    int reason;
  } kRows[] = {{0, SSL_R_SSLV3_ALERT_UNEXPECTED_MESSAGE}, {9, SSL_R_SSLV3_ALERT_BAD_RECORD_MAC}};
  for (const auto& row : kRows) {
    MemoryTlsPeer peer = Peer();
    std::vector<std::byte> bytes = peer.Say("words");
    bytes[row.at] ^= std::byte{4};
    Wire wire(peer.session(), Tuning());
    wire.Bring(bytes);
    std::byte got[5];
    EXPECT_EQ(wire.stream->Fill(got).code(), StatusCode::kProtocolViolation);
    wire.stream->Close();
    peer.Hear(wire.Take());
    ERR_clear_error();
    EXPECT_EQ(peer.Heard(), "");
    EXPECT_EQ(ERR_GET_REASON(ERR_peek_error()), row.reason);
    ERR_clear_error();
  }
}

TEST_P(TlsOpenssl, WhatOpensslFindsWrongIsSaid) {
  MemoryTlsPeer peer = Peer();
  Wire wire(peer.session(), Tuning());
  const std::string words = "words";
  ASSERT_TRUE(wire.stream->Send(std::as_bytes(std::span(words)), {}).ok());
  std::vector<std::byte> record = wire.Take(words.size() + kTlsOverheadBytes);
  record.back() ^= std::byte{1};
  peer.Hear(record);
  EXPECT_EQ(peer.Heard(), "");
  wire.Bring(peer.Said());
  std::byte got[5];
  const Status status = wire.stream->Fill(got);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("TLS alert 20, bad record mac"));
  EXPECT_EQ(wire.stream->alert(), SSL_AD_BAD_RECORD_MAC);
  ERR_clear_error();
}

// --- messages behind the handshake ---

TEST(TlsOpensslServer, ItsTicketsArePassedOver) {
  const TestAuthority authority;
  for (const int fragment : {0, 512}) {
    MemoryTlsPeer peer(authority, true, 3);
    EXPECT_FALSE(peer.session().received.empty());
    if (fragment != 0) {
      // A ticket has the client's certificate in it: it does not fit into one record.
      ASSERT_EQ(SSL_set_max_send_fragment(peer.ssl(), static_cast<size_t>(fragment)), 1);
      ASSERT_EQ(SSL_new_session_ticket(peer.ssl()), 1);
    }
    std::vector<std::byte> bytes = peer.Say("words");
    SSL_shutdown(peer.ssl());
    for (const std::byte one : peer.Said()) bytes.push_back(one);
    EXPECT_GT(bytes.size(), fragment == 0 ? 0u : 512u);
    for (size_t cut = 0; cut <= bytes.size(); cut += 11) {
      Status end;
      EXPECT_EQ(ReceiveAll(peer.session(), bytes, cut, &end), "words");
      EXPECT_THAT(end.message(), HasSubstr("was closed"));
    }
  }
}

TlsSession AsClient() {
  TlsSession session;
  session.client = true;
  session.receiving.bytes.fill(1);
  session.sending.bytes.fill(2);
  return session;
}

struct Part {
  TlsContent content;
  std::vector<uint8_t> bytes;
};

void SealTo(TlsKeys& keys, const Part& part, std::vector<std::byte>* records) {
  const size_t at = records->size();
  records->resize(at + part.bytes.size() + kTlsOverheadBytes);
  keys.Seal(part.content, std::as_bytes(std::span(part.bytes)), {}, records->data() + at);
}

TEST(TlsMessages, MayBeSplitAnywhere) {
  // A ticket, another one, new keys: together, and in two and three records.
  std::vector<uint8_t> messages = {4, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 4, 0, 0, 0, 24, 0, 0, 1, 0};
  for (size_t first = 1; first <= messages.size(); ++first) {
    for (size_t second = first; second <= messages.size(); ++second) {
      std::vector<Part> parts;
      const auto add = [&](size_t from, size_t to) {
        if (from != to) parts.push_back({TlsContent::kHandshake, {messages.begin() + from, messages.begin() + to}});
      };
      add(0, first);
      add(first, second);
      add(second, messages.size());
      TlsKeys keys(AsClient().receiving);
      std::vector<std::byte> records;
      for (const Part& part : parts) SealTo(keys, part, &records);
      keys.Update();
      SealTo(keys, {TlsContent::kData, {'w'}}, &records);
      Status end;
      EXPECT_EQ(ReceiveAll(AsClient(), records, 0, &end), "w") << first << " " << second << ": " << end.message();
      EXPECT_THAT(end.message(), HasSubstr("was cut"));
    }
  }
}

TEST(TlsMessages, OnlyTheseBelong) {
  const std::vector<Part> kRows[] = {
      {{TlsContent::kHandshake, {}}},                                           // empty
      {{TlsContent::kHandshake, {24, 0, 0, 1, 0, 4}}},                          // something behind new keys
      {{TlsContent::kHandshake, {24, 0, 0, 2, 0, 0}}},                          // new keys, too long
      {{TlsContent::kHandshake, {24, 0, 0, 0}}},                                // too short
      {{TlsContent::kHandshake, {13, 0, 0, 3, 0, 0, 0}}},                       // asks for a certificate
      {{TlsContent::kHandshake, {4, 2, 1, 10}}},                                // a ticket that is too long
      {{TlsContent::kHandshake, {20, 0, 0, 32}}},                               // the end of a handshake
      {{TlsContent::kHandshake, {4, 0, 0}}, {TlsContent::kData, {1}}},          // data within a message
      {{TlsContent::kHandshake, {4, 0, 0, 1}}, {TlsContent::kAlert, {1, 0}}},   // an alert within one
      {{TlsContent::kHandshake, {4, 0, 0, 1}}, {TlsContent::kHandshake, {}}}};  // an empty part
  for (size_t i = 0; i < std::size(kRows); ++i) {
    TlsKeys keys(AsClient().receiving);
    std::vector<std::byte> records;
    for (const Part& part : kRows[i]) SealTo(keys, part, &records);
    Status end;
    EXPECT_EQ(ReceiveAll(AsClient(), records, 0, &end), "") << i;
    EXPECT_EQ(end.code(), StatusCode::kProtocolViolation) << i << ": " << end.message();
  }
}

TEST(TlsRecords, LongerOnesThanThereMayBeAreNone) {
  TlsKeys keys(AsClient().receiving);
  std::vector<std::byte> record(kTlsPlainBytesMax + kTlsOverheadBytes);
  keys.Seal(TlsContent::kData, std::vector<std::byte>(kTlsPlainBytesMax), {}, record.data());
  EXPECT_TRUE(TlsRecordBytes(record).ok());
  record[4] ^= std::byte{2};  // 2 more, as of a peer that pads too much
  EXPECT_EQ(TlsRecordBytes(record).status().code(), StatusCode::kProtocolViolation);
}

}  // namespace
}  // namespace tessera
