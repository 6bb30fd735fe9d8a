// Whose connections end for whose, and whose servers of gRPC are whose.
#include "protocol/rpc/rpc_connections.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "protocol/base/clock.h"
#include "protocol/rpc/rpc_lanes.h"

namespace tessera {
namespace {

constexpr uint64_t kNsOfS = 1'000'000'000;

Standing StandingByName(const std::string& holder) {
  if (holder.starts_with("name:nobody")) return Standing::kNobody;
  return holder == "uid:0" ? Standing::kTrusted : Standing::kUsual;
}

// A server and its service live as long as the process (protocol/rpc/rpc_front.h).
std::unique_ptr<grpc::Server> Build() {
  grpc::ServerBuilder builder;
  RpcBounds().Bound(builder, "a test");
  builder.RegisterCallbackGenericService(new grpc::CallbackGenericService());
  return builder.BuildAndStart();
}

class RpcConnectionsTest : public testing::Test {
 protected:
  static grpc::Server& Server() {
    static grpc::Server& server = *Build().release();
    return server;
  }
  // A connection of `holder`: the client's end.
  UniqueFd Come(const std::string& holder) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    UniqueFd client(ends[0]);
    connections_->Take(Server(), UniqueFd(ends[1]), holder, true);
    return client;
  }
  std::vector<UniqueFd> Come(const std::string& holder, int count) {
    std::vector<UniqueFd> all;
    for (int i = 0; i < count; ++i) all.push_back(Come(holder));
    return all;
  }
  // gRPC has said something first: its settings.
  static bool IsOpen(const UniqueFd& socket) {
    char bytes[4096];
    for (;;) {
      const ssize_t got = recv(socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got <= 0) return got < 0 && errno == EAGAIN;
    }
  }
  static size_t CountOpen(const std::vector<UniqueFd>& sockets) {
    size_t count = 0;
    for (const UniqueFd& socket : sockets) count += IsOpen(socket) ? 1 : 0;
    return count;
  }

  // Threads of gRPC may outlive the test.
  RpcConnections* connections_ = new RpcConnections({.nobody = {.of_holder = 4, .in_all = 8},
                                                     .usual = {.of_holder = 16, .in_all = 32},
                                                     .trusted = {.of_holder = 16, .in_all = 16}},
                                                    StandingByName);
};

TEST_F(RpcConnectionsTest, AHoldersOwnOldestGoes) {
  const UniqueFd alice = Come("name:alice"), root = Come("uid:0");
  const std::vector<UniqueFd> many = Come("name:mallory", 40);
  EXPECT_LE(CountOpen(many), 16u);
  EXPECT_FALSE(IsOpen(many.front()));
  EXPECT_TRUE(IsOpen(alice));
  EXPECT_TRUE(IsOpen(root));
}

TEST_F(RpcConnectionsTest, NobodiesAreInNobodysWay) {
  const std::vector<UniqueFd> alice = Come("name:alice", 16), bob = Come("name:bob", 16), root = Come("uid:0", 16);
  std::vector<UniqueFd> nobodies;
  for (int i = 0; i < 20; ++i) nobodies.push_back(Come("name:nobody" + std::to_string(i)));
  EXPECT_LE(CountOpen(nobodies), 8u);
  EXPECT_EQ(CountOpen(alice), 16u);
  EXPECT_EQ(CountOpen(bob), 16u);
  EXPECT_EQ(CountOpen(root), 16u);
  // Where all places of the usual are taken, one who has less than others has one.
  const UniqueFd carol = Come("name:carol");
  EXPECT_TRUE(IsOpen(carol));
  EXPECT_EQ(CountOpen(alice) + CountOpen(bob), 31u);
  EXPECT_EQ(CountOpen(root), 16u);
}

TEST_F(RpcConnectionsTest, WhoTakesMostIsEndedAloneAndOthersOnlyLater) {
  const std::vector<UniqueFd> alice = Come("name:alice", 1), mallory = Come("name:mallory", 16), root = Come("uid:0", 16);
  uint64_t now_ns = 100 * kNsOfS;
  RpcConnections::Ended ended;
  // Those that have read nothing yet go first.
  while (CountOpen(mallory) > 0) {
    ended = connections_->EndGreedy(now_ns);
    ASSERT_EQ(ended.holder, "name:mallory");
  }
  EXPECT_EQ(CountOpen(alice), 1u);
  EXPECT_EQ(CountOpen(root), 16u);
  // What became free is seen a little later.
  EXPECT_EQ(connections_->EndGreedy(now_ns + 1).count, 0u);
  // He may come again once gRPC has closed his ended ones.
  UniqueFd again = Come("name:mallory");
  while (!IsOpen(again)) again = Come("name:mallory");
  ended = connections_->EndGreedy(now_ns + 2);
  EXPECT_EQ(ended.holder, "name:mallory");
  EXPECT_FALSE(IsOpen(again));
  now_ns += RpcConnections::kGreedyPauseNs + 2;
  EXPECT_EQ(connections_->EndGreedy(now_ns).holder, "uid:0");  // as four of others
  EXPECT_EQ(CountOpen(alice), 1u);
}

TEST_F(RpcConnectionsTest, CallsCountAndAreForgotten) {
  const std::vector<UniqueFd> alice = Come("name:alice", 3);
  // Only the number of a descriptor of this process is known to those who ask.
  const UniqueFd mallory = Come("name:mallory");
  std::string peer;
  for (int fd = 0; fd < 1'024 && peer.empty(); ++fd) {
    if (connections_->HolderOf("fd:" + std::to_string(fd)) == "name:mallory") peer = "fd:" + std::to_string(fd);
  }
  ASSERT_NE(peer, "");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(connections_->HolderOf(peer), "name:mallory");
  EXPECT_EQ(connections_->EndGreedy(MonotonicNs()).holder, "name:mallory");
  EXPECT_EQ(CountOpen(alice), 3u);
}

TEST(RpcLanes, HoldersHaveServersOfTheirOwn) {
  std::map<Standing, int> made;
  auto& lanes = *new RpcLanes([&](Standing standing) {
    ++made[standing];
    return Build();
  });
  grpc::Server& alice = lanes.Of("name:alice", Standing::kUsual);
  EXPECT_EQ(&lanes.Of("name:alice", Standing::kUsual), &alice);
  EXPECT_NE(&lanes.Of("name:bob", Standing::kUsual), &alice);
  EXPECT_NE(&lanes.Of("name:alice", Standing::kTrusted), &alice);
  EXPECT_EQ(&lanes.Of("name:x", Standing::kNobody), &lanes.Of("name:y", Standing::kNobody));
  for (size_t i = 0; i < 2 * RpcLanes::kLanesMax; ++i) lanes.Of("name:" + std::to_string(i), Standing::kUsual);
  EXPECT_EQ(made[Standing::kUsual], static_cast<int>(RpcLanes::kLanesMax));
  EXPECT_EQ(made[Standing::kNobody], 1);
}

}  // namespace
}  // namespace tessera
