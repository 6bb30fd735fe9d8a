// Records that several threads seal and open.
#include "protocol/link/tls/tls_crew.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/link/tls/tls_stream.h"
#include "tests/support/tls_pair.h"

namespace tessera {
namespace {

// Full records, as many as one call of Open() may take, of which one is bad.
TEST(TlsCrew, ABadRecordAmongOthersIsNoticed) {
  constexpr size_t kRecords = 5;
  constexpr size_t kRecordBytes = kTlsPlainBytesMax + kTlsOverheadBytes;
  TlsSession session;
  session.receiving.bytes.fill(1);
  const std::vector<std::byte> plain(kTlsPlainBytesMax, std::byte{5});
  for (size_t bad = 0; bad <= kRecords; ++bad) {
    TlsKeys keys(session.receiving);
    session.received.resize(kRecords * kRecordBytes);
    for (size_t i = 0; i < kRecords; ++i) keys.Seal(TlsContent::kData, plain, {}, session.received.data() + i * kRecordBytes);
    if (bad < kRecords) session.received[bad * kRecordBytes + 1000] ^= std::byte{1};
    TcpListener listener = TcpListener::Bind({"127.0.0.1", 0}, false).value();
    UniqueFd near = ConnectTcpSocket(listener.address(), false, MonotonicNs() + kTcpTestNs).value();
    UniqueFd far = AwaitConnection(listener).value();
    near.reset();
    TlsStream stream(TcpStream::Make(std::move(far)).value(), session, TuningOfTests());
    std::vector<std::byte> got(kRecords * kTlsPlainBytesMax);
    const Status status = stream.Fill(got);
    EXPECT_EQ(status.code(), bad < kRecords ? StatusCode::kProtocolViolation : StatusCode::kOk)
        << bad << ": " << status.message();
    if (bad == kRecords) {
      EXPECT_EQ(got, std::vector<std::byte>(got.size(), std::byte{5}));
    }
  }
}

TEST(TlsCrew, FullRecordsOfSomethingElseAreTakenOneByOne) {
  constexpr size_t kRecordBytes = kTlsPlainBytesMax + kTlsOverheadBytes;
  TlsSession session;
  session.receiving.bytes.fill(1);
  TlsKeys keys(session.receiving);
  session.received.resize(6 * kRecordBytes);
  size_t sealed = 0;
  const auto seal = [&](TlsContent content, const std::vector<std::byte>& plain) {
    sealed += keys.Seal(content, plain, {}, session.received.data() + sealed);
  };
  // Padded to be full: ten bytes of data, and new keys.
  std::vector<std::byte> padded(kTlsPlainBytesMax), update(kTlsPlainBytesMax);
  std::fill_n(padded.begin(), 10, std::byte{7});
  padded[10] = static_cast<std::byte>(TlsContent::kData);
  const uint8_t words[] = {24, 0, 0, 1, 0, static_cast<uint8_t>(TlsContent::kHandshake)};
  std::ranges::copy(std::as_bytes(std::span(words)), update.begin());
  const std::vector<std::byte> plain(kTlsPlainBytesMax, std::byte{5});
  seal(TlsContent::kData, plain);
  seal(TlsContent::kNone, padded);
  seal(TlsContent::kData, plain);
  seal(TlsContent::kNone, update);
  keys.Update();
  seal(TlsContent::kData, plain);
  seal(TlsContent::kData, plain);
  TcpListener listener = TcpListener::Bind({"127.0.0.1", 0}, false).value();
  UniqueFd near = ConnectTcpSocket(listener.address(), false, MonotonicNs() + kTcpTestNs).value();
  TlsStream stream(TcpStream::Make(AwaitConnection(listener).value()).value(), session, TuningOfTests());
  near.reset();
  std::vector<std::byte> wanted(plain);
  wanted.insert(wanted.end(), 10, std::byte{7});
  wanted.insert(wanted.end(), 3 * kTlsPlainBytesMax, std::byte{5});
  std::vector<std::byte> got(wanted.size());
  ASSERT_TRUE(stream.Fill(got).ok());
  EXPECT_EQ(got, wanted);
  EXPECT_THAT(stream.Fill(std::span(got).first(1)).message(), testing::HasSubstr("was cut"));
}

}  // namespace
}  // namespace tessera
