// Two ends of a link over UCX in one process: over the loopback device, or over the address in TESSERA_TEST_UCX_HOST (of a
// device that RDMA works on, as in tests/rdma).
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/link/ucx_link.h"

namespace tessera {

inline constexpr uint64_t kUcxTestNs = 20'000'000'000;

// Whether UCX is on this machine. Tests skip without; any other trouble with it is a failure.
inline bool HaveUcx() { return PrepareUcx().code() != StatusCode::kNotFound; }

inline std::string UcxTestHost() {
  const char* host = getenv("TESSERA_TEST_UCX_HOST");
  return host != nullptr ? host : "127.0.0.1";
}

inline Result<std::unique_ptr<UcxListener>> MakeUcxListener() { return UcxListener::Bind({UcxTestHost(), 0}, true); }

// The next connection of a listener, waiting for it.
inline Result<UniqueFd> AwaitConnection(UcxListener& listener) {
  pollfd ready = {listener.fd(), POLLIN, 0};
  poll(&ready, 1, static_cast<int>(kUcxTestNs / 1'000'000));
  return listener.Accept();
}

inline std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeUcxPair() {
  Result<std::unique_ptr<UcxListener>> listener = MakeUcxListener();
  EXPECT_TRUE(listener.ok()) << listener.status().message();
  std::unique_ptr<Link> near;
  std::thread connecting([&] {
    Result<std::unique_ptr<Link>> link = ConnectUcx((*listener)->address(), true, MonotonicNs() + kUcxTestNs);
    ASSERT_TRUE(link.ok()) << link.status().message();
    near = std::move(*link);
  });
  Result<UniqueFd> connection = AwaitConnection(**listener);
  EXPECT_TRUE(connection.ok()) << connection.status().message();
  Result<std::unique_ptr<Link>> far = (*listener)->Finish(std::move(*connection), MonotonicNs() + kUcxTestNs);
  EXPECT_TRUE(far.ok()) << far.status().message();
  connecting.join();
  return {std::move(near), std::move(*far)};
}

}  // namespace tessera
