// The TLS link against the programs openssl s_client and openssl s_server: records of every length both ways, new keys, tickets,
// early data, alerts, in records of ours and in OpenSSL's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "protocol/link/tls/tls_openssl_stream.h"
#include "protocol/link/tls/tls_stream.h"
#include "tests/support/openssl_program.h"
#include "tests/support/tls_pair.h"

namespace tessera {
namespace {

using testing::HasSubstr;

constexpr size_t kReadByProgram = 8192;  // of its stdin at once: no record that it makes of that is longer

std::string Digits(size_t bytes) {
  std::string words(bytes, '0');
  for (size_t i = 0; i < bytes; ++i) words[i] = static_cast<char>('0' + (i * 7 + bytes) % 10);
  return words;
}

class TlsPrograms : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!OpensslProgram::Installed()) GTEST_SKIP() << "there is no program openssl here";
  }

  std::vector<std::string> Words(std::vector<std::string> words, const LinkOptions& shown, std::vector<std::string> more) const {
    for (const std::string& word : {std::string("-cert"), shown.keys.certificate, std::string("-key"), shown.keys.key,
                                    std::string("-CAfile"), authority_.path(), std::string("-verify_return_error")})
      words.push_back(word);
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // s_client, which connects to this side.
  void MeetClient(std::vector<std::string> more) {
    TcpListener listener = TcpListener::Bind({"127.0.0.1", 0}, false).value();
    program_ = std::make_unique<OpensslProgram>(
        Words({"s_client", "-connect", "127.0.0.1:" + std::to_string(listener.address().port)}, authority_.Client(), more));
    const auto us = TlsIdentity::Load(TlsRole::kServer, authority_.Server()).value();
    Finish(AwaitConnection(listener).value(), {*us, nullptr});
  }
  // s_server, to which this side connects.
  uint16_t StartServer(std::vector<std::string> more, std::unique_ptr<OpensslProgram>* server) {
    *server = std::make_unique<OpensslProgram>(
        Words({"s_server", "-accept", "127.0.0.1:0", "-Verify", "1"}, authority_.Server(), more));
    (*server)->HearUntil("ACCEPT ");
    const std::string said = (*server)->HearUntil("\n");  // "127.0.0.1:40001"
    return static_cast<uint16_t>(std::stoi(said.substr(said.rfind(':') + 1)));
  }
  void MeetServer(std::vector<std::string> more) {
    const LinkAddress address = {"127.0.0.1", StartServer(std::move(more), &program_), LinkScheme::kTls};
    const auto us = TlsIdentity::Load(TlsRole::kClient, authority_.Client()).value();
    Finish(ConnectTcpSocket(address, true, MonotonicNs() + kTcpTestNs).value(), {*us, &address});
    Send("begin");
    program_->HearUntil("begin");
  }
  void Finish(UniqueFd socket, const TlsParties& parties) {
    Result<TlsSession> session = ShakeHands(socket.get(), parties, MonotonicNs() + kTcpTestNs);
    ASSERT_TRUE(session.ok()) << session.status().message();
    std::unique_ptr<TcpStream> tcp = TcpStream::Make(std::move(socket)).value();
    TlsTuning tuning = TuningOfTests();
    tuning.records_per_key = 900;
    if (GetParam()) {
      stream_ = std::make_unique<TlsOpensslStream>(std::move(tcp), *session, tuning);
    } else {
      stream_ = std::make_unique<TlsStream>(std::move(tcp), *session, tuning);
    }
    stream_->SetDeadline(MonotonicNs() + kTcpTestNs * 5);
  }

  void Send(std::string_view words) { ASSERT_TRUE(stream_->Send(std::as_bytes(std::span(words)), {}).ok()); }
  std::string Receive(size_t bytes) {
    std::string words(bytes, '\0');
    const Status status = stream_->Fill(std::as_writable_bytes(std::span(words)));
    EXPECT_TRUE(status.ok()) << status.message();
    return words;
  }
  // What it says besides, of new keys, is left out.
  std::string HearDigits(size_t bytes) {
    std::string words;
    while (words.size() < bytes || words.find_first_not_of("0123456789") != std::string::npos) {
      const std::string more = program_->Hear(std::max<size_t>(1, bytes - std::min(bytes, words.size())));
      if (more.empty()) break;
      words += more;
      for (const std::string_view aside : {"Read BLOCK\n", "SSL_do_handshake -> 1\n"}) {
        for (size_t at; (at = words.find(aside)) != std::string::npos;) words.erase(at, aside.size());
      }
    }
    return words;
  }
  void ExpectBothWays(const std::string& words) {
    Send(words);
    ASSERT_TRUE(HearDigits(words.size()) == words);
    if (words.size() > kReadByProgram) return;
    program_->Say(words);
    ASSERT_TRUE(Receive(words.size()) == words);
  }
  // To the program all of these lengths, one record behind the other; from it some, since it has to have read one before the
  // next.
  void ExpectEveryLength(size_t step) {
    std::thread sending([&] {
      for (size_t bytes = 1; bytes <= kTlsPlainBytesMax; bytes += step) Send(Digits(bytes));
    });
    for (size_t bytes = 1; bytes <= kTlsPlainBytesMax; bytes += step) EXPECT_TRUE(HearDigits(bytes) == Digits(bytes)) << bytes;
    sending.join();
    for (size_t bytes = 1; bytes < kReadByProgram; bytes += bytes < 32 ? 1 : 97) {
      ASSERT_NO_FATAL_FAILURE(ExpectBothWays(Digits(bytes))) << bytes;
    }
    for (const size_t bytes : {kReadByProgram, kTlsPlainBytesMax}) ASSERT_NO_FATAL_FAILURE(ExpectBothWays(Digits(bytes)));
  }
  void ExpectNewKeys() {
    for (const char* command : {"K\n", "k\n", "K\n"}) {
      program_->Say(command);
      for (const size_t bytes : {10, 3000}) ASSERT_NO_FATAL_FAILURE(ExpectBothWays(Digits(bytes)));
    }
  }

  const TestAuthority authority_;
  std::unique_ptr<TlsBytes> stream_;
  std::unique_ptr<OpensslProgram> program_;  // goes first
};
INSTANTIATE_TEST_SUITE_P(, TlsPrograms, testing::Bool(), [](const auto& info) { return info.param ? "openssl" : "own"; });

TEST_P(TlsPrograms, AClientOfEveryLength) {
  ASSERT_NO_FATAL_FAILURE(MeetClient({"-quiet"}));
  ExpectEveryLength(GetParam() ? 37 : kTlsTestStep);
}

TEST_P(TlsPrograms, AServerOfEveryLengthWithTickets) {
  ASSERT_NO_FATAL_FAILURE(MeetServer({}));
  ExpectEveryLength(GetParam() ? 37 : kTlsTestStep);
}

TEST_P(TlsPrograms, PaddedRecordsAndSplitMessages) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"-record_padding", "512"},
                                                {"-record_padding", "16384"},
                                                {"-max_send_frag", "512", "-num_tickets", "5"}}) {
    ASSERT_NO_FATAL_FAILURE(MeetServer(words));
    ExpectEveryLength(509);
    program_.reset();
    stream_.reset();
  }
  ASSERT_NO_FATAL_FAILURE(MeetClient({"-quiet", "-record_padding", "16384"}));
  ExpectEveryLength(509);
}

TEST_P(TlsPrograms, NewKeysThatAClientOrAServerWants) {
  ASSERT_NO_FATAL_FAILURE(MeetClient({"-brief"}));
  ExpectNewKeys();
  program_.reset();
  stream_.reset();
  ASSERT_NO_FATAL_FAILURE(MeetServer({}));
  ExpectNewKeys();
}

TEST_P(TlsPrograms, AGoodbyeIsHeardByBothSides) {
  ASSERT_NO_FATAL_FAILURE(MeetClient({"-quiet"}));
  Send("last");
  stream_->Close();
  EXPECT_EQ(program_->Hear(100), "last");  // and then it ends
  ASSERT_NO_FATAL_FAILURE(MeetClient({"-brief"}));
  program_->Say("Q\n");
  std::byte one;
  EXPECT_THAT(stream_->Fill(std::span(&one, 1)).message(), HasSubstr("was closed"));
}

TEST_P(TlsPrograms, WordsInTheClearEndIt) {
  ASSERT_NO_FATAL_FAILURE(MeetServer({}));
  program_->Say("P\n");  // s_server writes a line to the socket as it is
  std::byte one;
  const Status status = stream_->Fill(std::span(&one, 1));
  EXPECT_EQ(status.code(), StatusCode::kProtocolViolation);
  EXPECT_THAT(status.message(), HasSubstr("no record of TLS"));
}

TEST_P(TlsPrograms, EarlyDataAndAnOldSessionAreRefused) {
  const std::string ticket = authority_.Write("session", ""), early = authority_.Write("early", "early words");
  std::unique_ptr<OpensslProgram> server;
  const uint16_t port = StartServer({"-early_data", "-max_early_data", "16384"}, &server);
  {
    OpensslProgram client(Words({"s_client", "-connect", "127.0.0.1:" + std::to_string(port), "-sess_out", ticket},
                                authority_.Client(), {"-quiet"}));
    const uint64_t end_ns = MonotonicNs() + kTcpTestNs;
    while (std::filesystem::file_size(ticket) == 0 && MonotonicNs() < end_ns) usleep(1000);
    usleep(20'000);  // all of it
  }
  ASSERT_NO_FATAL_FAILURE(MeetClient({"-sess_in", ticket, "-early_data", early}));
  program_->Say("0 later words");
  EXPECT_EQ(Receive(13), "0 later words");
  EXPECT_THAT(program_->HearUntil("Early data was rejected"), HasSubstr("Early data was rejected"));
  Send("answer");
  program_->HearUntil("answer");
}

}  // namespace
}  // namespace tessera
