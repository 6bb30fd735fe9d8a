// Two ends of a TLS link over the loopback device, in one process.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "protocol/link/tls/tls_link.h"
#include "tests/support/tcp_pair.h"
#include "tests/support/tls_keys_in.h"

namespace tessera {

// What became of a connection of ConnectTls() to a listener, on both sides.
struct TlsMeeting {
  Result<std::unique_ptr<Link>> near = Status(StatusCode::kInternal, "not tried");
  Result<AcceptedLink> far = Status(StatusCode::kInternal, "not tried");
};

inline TlsMeeting MeetOverTls(const LinkOptions& client, const LinkOptions& server, const std::string& host = "127.0.0.1",
                              const TlsTuning& tuning = {}, const TlsTuning& far_tuning = {}) {
  TlsMeeting meeting;
  Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
  EXPECT_TRUE(listener.ok()) << listener.status().message();
  Result<std::shared_ptr<const TlsIdentity>> identity = TlsIdentity::Load(TlsRole::kServer, server);
  EXPECT_TRUE(identity.ok()) << identity.status().message();
  std::thread connecting([&] {
    meeting.near = ConnectTls({host, listener->address().port, LinkScheme::kTls}, client, MonotonicNs() + kTcpTestNs, tuning);
  });
  Result<UniqueFd> connection = AwaitConnection(*listener);
  EXPECT_TRUE(connection.ok()) << connection.status().message();
  meeting.far = AcceptTls(std::move(*connection), **identity, MonotonicNs() + kTcpTestNs, far_tuning);
  connecting.join();
  return meeting;
}

// Of tests that go through every length and every bit: under the thread sanitizer, which takes fifty times as long, through some.
#if defined(__SANITIZE_THREAD__)
inline constexpr size_t kTlsTestStep = 23;
#else
inline constexpr size_t kTlsTestStep = 1;
#endif

// For tests: a key has few records, so that keys change, and large frames are sealed and opened by several threads on any
// machine.
inline TlsTuning TuningOfTests() {
  // Never destroyed: OpenSSL, which may have been used for the first time after this, gives nothing of its threads back by then.
  static TlsCrew& crew = *new TlsCrew(2);
  return {.records_per_key = 50, .crew = &crew};
}

// The same with OpenSSL's records.
inline TlsTuning OpensslTuningOfTests() {
  TlsTuning tuning = TuningOfTests();
  tuning.openssl = true;
  return tuning;
}

inline std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeTlsPair(const TlsTuning& near, const TlsTuning& far) {
  const TestAuthority authority;
  TlsMeeting meeting = MeetOverTls(authority.Client(), authority.Server(), "127.0.0.1", near, far);
  EXPECT_TRUE(meeting.near.ok()) << meeting.near.status().message();
  EXPECT_TRUE(meeting.far.ok()) << meeting.far.status().message();
  return {std::move(*meeting.near), std::move(meeting.far->link)};
}
inline std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeTlsPair(const TlsTuning& tuning = TuningOfTests()) {
  return MakeTlsPair(tuning, tuning);
}

}  // namespace tessera
