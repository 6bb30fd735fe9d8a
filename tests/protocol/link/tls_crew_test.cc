// Records that several threads seal and open.
#include "protocol/link/tls/tls_crew.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "protocol/link/tcp/tcp_stream.h"
#include "protocol/link/tls/tls_stream.h"
#include "tests/support/tls_pair.h"

namespace tessera {
namespace {

TEST(TlsCrew, EverythingIsDoneOnceAndOneThreadIsInALane) {
  for (const size_t helpers : {0, 1, 3}) {
    TlsCrew crew(helpers);
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 3; ++caller) {
      callers.emplace_back([&] {
        for (size_t round = 0; round < 300; ++round) {
          const size_t count = round % 40;
          std::vector<std::atomic<int>> done(count);
          std::vector<std::atomic<int>> in_lane(helpers + 1);
          crew.Share(count, [&](size_t lane, size_t i) {
            EXPECT_EQ(in_lane.at(lane).fetch_add(1), 0);
            ++done[i];
            --in_lane[lane];
          });
          for (const auto& one : done) EXPECT_EQ(one.load(), 1);
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
}

TEST(TlsCrew, HelpersTakePart) {
  TlsCrew crew(1);
  std::atomic<bool> helped{false};
  // The caller's part lasts until the helper has done one.
  crew.Share(2, [&](size_t lane, size_t) {
    if (lane == 1) helped = true;
    while (!helped.load()) std::this_thread::yield();
  });
  EXPECT_TRUE(helped.load());
}

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

TEST(TlsCrew, FullRecordsOfSomethingElseAreRefused) {
  constexpr size_t kRecordBytes = kTlsPlainBytesMax + kTlsOverheadBytes;
  TlsSession session;
  session.receiving.bytes.fill(1);
  TlsKeys keys(session.receiving);
  session.received.resize(2 * kRecordBytes);
  std::vector<std::byte> padded(kTlsPlainBytesMax, std::byte{0});
  padded[10] = static_cast<std::byte>(TlsContent::kData);
  keys.Seal(TlsContent::kData, std::vector<std::byte>(kTlsPlainBytesMax), {}, session.received.data());
  keys.Seal(TlsContent::kNone, padded, {}, session.received.data() + kRecordBytes);
  TcpListener listener = TcpListener::Bind({"127.0.0.1", 0}, false).value();
  UniqueFd near = ConnectTcpSocket(listener.address(), false, MonotonicNs() + kTcpTestNs).value();
  TlsStream stream(TcpStream::Make(AwaitConnection(listener).value()).value(), session, TuningOfTests());
  near.reset();
  std::vector<std::byte> got(2 * kTlsPlainBytesMax);
  EXPECT_THAT(stream.Fill(got).message(), testing::HasSubstr("a full record of something else than data"));
}

}  // namespace
}  // namespace tessera
