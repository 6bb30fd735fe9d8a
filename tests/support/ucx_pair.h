// Two ends of a link over UCX in one process: over the loopback device, or over the address in TESSERA_TEST_UCX_HOST (of a
// device that RDMA works on, as in tests/rdma).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/link/ucx/ucx_link.h"
#include "tests/support/tcp_pair.h"

namespace tessera {

// Whether UCX is on this machine. Tests skip without; any other trouble with it is a failure.
inline bool HaveUcx() { return PrepareUcx().code() != StatusCode::kNotFound; }

inline std::string UcxTestHost() {
  const char* host = getenv("TESSERA_TEST_UCX_HOST");
  return host != nullptr ? host : "127.0.0.1";
}

inline Result<std::unique_ptr<LinkListener>> MakeUcxListener() { return ListenUcx({UcxTestHost(), 0, LinkScheme::kUcx}, true); }

inline std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeUcxPair() {
  Result<std::unique_ptr<LinkListener>> listener = MakeUcxListener();
  EXPECT_TRUE(listener.ok()) << listener.status().message();
  std::unique_ptr<Link> near;
  std::thread connecting([&] {
    Result<std::unique_ptr<Link>> link = ConnectUcx((*listener)->address(), true, MonotonicNs() + kTcpTestNs);
    ASSERT_TRUE(link.ok()) << link.status().message();
    near = std::move(*link);
  });
  Result<UniqueFd> connection = AwaitConnection(**listener);
  EXPECT_TRUE(connection.ok()) << connection.status().message();
  Result<AcceptedLink> far = (*listener)->Finish(std::move(*connection), MonotonicNs() + kTcpTestNs, {});
  EXPECT_TRUE(far.ok()) << far.status().message();
  connecting.join();
  return {std::move(near), std::move(far->link)};
}

}  // namespace tessera
