// Two ends of a TCP link over the loopback device, in one process.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <thread>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/link/tcp/tcp_link.h"
#include "tests/support/times.h"

namespace tessera {

inline constexpr uint64_t kTcpTestNs = 20'000'000'000;

// The next connection of a listener, waiting for it.
inline Result<UniqueFd> AwaitConnection(LinkListener& listener) {
  pollfd ready = {listener.fd(), POLLIN, 0};
  poll(&ready, 1, static_cast<int>(kTcpTestNs / 1'000'000));
  return listener.Accept();
}

inline std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeTcpPair() {
  Result<TcpListener> listener = TcpListener::Bind({"127.0.0.1", 0}, false);
  EXPECT_TRUE(listener.ok()) << listener.status().message();
  std::unique_ptr<Link> near;
  std::thread connecting([&] {
    Result<std::unique_ptr<Link>> link = ConnectTcp(listener->address(), false, MonotonicNs() + kTcpTestNs);
    ASSERT_TRUE(link.ok()) << link.status().message();
    near = std::move(*link);
  });
  Result<UniqueFd> connection = AwaitConnection(*listener);
  EXPECT_TRUE(connection.ok()) << connection.status().message();
  Result<std::unique_ptr<Link>> far = AcceptTcp(std::move(*connection), MonotonicNs() + kTcpTestNs);
  EXPECT_TRUE(far.ok()) << far.status().message();
  connecting.join();
  return {std::move(near), std::move(*far)};
}

}  // namespace tessera
