// What the front of the control API relies on in gRPC.
#include "server/broker/control/control_calls.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

namespace tessera {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

bool Comes(const std::function<bool()>& what) {
  for (int i = 0; i < 1'000 && !what(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return what();
}

// Who calls is told by the number of a descriptor. If that could be the next connection's while a call of this one is there, a
// caller would become somebody else.
TEST(ControlCalls, ADescriptorIsNotClosedBeforeTheLastCallOfItsConnection) {
  // Both live as long as the process, as in the broker.
  CallQueue* const queue = CallQueue::Make().value().release();
  auto* const connections = new RpcConnections();
  auto* const calls = new ControlCalls(*queue, *connections, {});
  grpc::ServerBuilder builder;
  auto* const lane = new ControlCalls::Lane(builder);
  grpc::Server* const server = builder.BuildAndStart().release();
  calls->Begin(*lane);
  std::thread([lane] {
    for (;;) lane->TendOne();
  }).detach();

  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  ASSERT_TRUE(connections->Take(*server, UniqueFd(ends[0]), "name:alice", true));
  auto stub = control::v1::VgpuService::NewStub(grpc::CreateInsecureChannelFromFd("control", ends[1]));
  std::thread client([&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
    control::v1::VgpuList list;
    EXPECT_EQ(stub->List(&context, control::v1::ListRequest(), &list).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  });
  pollfd call{queue->call_fd(), POLLIN, 0};
  ASSERT_EQ(poll(&call, 1, 10'000), 1);
  client.join();
  stub.reset();
  // The client's end is closed, and the call waits for the broker's thread.
  ASSERT_TRUE(Comes([&] { return !IsOpen(ends[1]); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_TRUE(IsOpen(ends[0]));
  const auto taken = queue->TakeOne();
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->second.holder, "name:alice");
  queue->Answer(taken->first, {});
  calls->Deliver();
  EXPECT_TRUE(Comes([&] { return !IsOpen(ends[0]); }));
}

}  // namespace
}  // namespace tessera
