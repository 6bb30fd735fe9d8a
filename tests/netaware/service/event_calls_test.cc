#include "netaware/service/event_calls.h"

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "netaware/store/memory_store.h"

namespace tessera {
namespace {

using control::v1::Event;
using control::v1::EventList;
using control::v1::EventService;

// A placer's loop and its event calls, and connections to them.
class EventCallsTest : public ::testing::Test {
 protected:
  EventCallsTest() : roles(RolesFile::Open("").value()) {
    auto signer = TicketSigner::Make();
    loop = PlacerLoop::Start({}, std::move(*signer), *store).value();
    calls = std::make_unique<EventCalls>(*loop, *roles, connections);
    grpc::ServerBuilder builder;
    RpcBounds().Bound(builder, "placer");
    builder.RegisterService(calls.get());
    server = servers.emplace_back(builder.BuildAndStart()).get();
  }
  ~EventCallsTest() override {
    server->Shutdown(std::chrono::system_clock::now());
    loop->End();
  }

  std::unique_ptr<EventService::Stub> Connect(const std::string& holder) {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    EXPECT_TRUE(connections.Take(*server, UniqueFd(sockets[0]), holder, false));
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // else gRPC may keep megabytes for a client that does not read
    return EventService::NewStub(grpc::CreateCustomInsecureChannelFromFd("placer", sockets[1], arguments));
  }
  // Notes so many, of grants of `holder`, and waits until they are stored.
  void Note(int from, int to, const std::string& holder = "name:alice") {
    for (int i = from; i < to; ++i) {
      loop->Post([=](PlacerCore& core, int64_t now_ms) {
        core.Note({.actor = "name:boss",
                   .action = "grant",
                   .object = std::to_string(i),
                   .holder = holder,
                   .text = std::string(500, 'x')},
                  now_ms);
        if (i % 500 == 499 || i + 1 == to) core.StoreNotes(now_ms);
      });
    }
    std::promise<void> noted;
    loop->Post([&](PlacerCore&, int64_t) { noted.set_value(); });
    noted.get_future().wait();
    EventList all;
    while (all.events().empty() || all.events().rbegin()->object() != std::to_string(to - 1)) all = List({}, "uid:0");
  }
  EventList List(control::v1::ListEventsRequest request, const std::string& holder) {
    grpc::ClientContext context;
    EventList list;
    const grpc::Status status = Connect(holder)->ListEvents(&context, request, &list);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return list;
  }

  const std::unique_ptr<Store> store = MakeMemoryStore();
  const std::unique_ptr<RolesFile> roles;
  RpcConnections connections{{.usual = {.of_holder = 1'000, .in_all = 1'000}}};
  std::unique_ptr<PlacerLoop> loop;
  std::unique_ptr<EventCalls> calls;
  // A server is never destroyed (protocol/rpc/rpc_front.h), or gRPC would end with the last one, and wait for threads of its own.
  static inline std::vector<std::unique_ptr<grpc::Server>>& servers = *new std::vector<std::unique_ptr<grpc::Server>>();
  grpc::Server* server = nullptr;
};

TEST_F(EventCallsTest, WhoDoesNotReadIsTurnedAwayAndGoesOnBehindWhatHeHas) {
  constexpr int kMany = 12'000;
  const auto stub = Connect("name:alice");
  control::v1::WatchEventsRequest request;
  request.set_after_number(List({}, "uid:0").last_number());
  Event event;
  int next = 0;
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    const auto stream = stub->WatchEvents(&context, request);
    Note(0, 1);  // he gets his record
    ASSERT_TRUE(stream->Read(&event));
    Note(1, kMany);  // nobody waits for him
    for (next = 1; stream->Read(&event); ++next) ASSERT_EQ(event.object(), std::to_string(next));
    EXPECT_LT(next, kMany);
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(status.error_message(), "2048 events wait, and are not read: read faster, or ask for fewer");
  }
  // Records that are stored already wait for him, however slow he is.
  request.set_after_number(event.number());
  grpc::ClientContext context;
  const auto stream = stub->WatchEvents(&context, request);
  for (; next < kMany; ++next) {
    ASSERT_TRUE(stream->Read(&event)) << next;
    ASSERT_EQ(event.object(), std::to_string(next));
    EXPECT_EQ(event.actor(), "");
  }
  context.TryCancel();
}

TEST_F(EventCallsTest, WhoWatchesTooOftenLosesHisOldestWatchAndNobodyElseHis) {
  using Stream = std::unique_ptr<grpc::ClientReader<Event>>;
  std::vector<std::unique_ptr<EventService::Stub>> stubs;
  const auto bobs = Connect("name:bob");
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<Stream> streams;
  const auto watch = [&](EventService::Stub& stub) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    contexts.back()->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    streams.push_back(stub.WatchEvents(contexts.back().get(), {}));
  };
  watch(*bobs);
  Note(0, 1, "name:bob");
  Event event;
  ASSERT_TRUE(streams[0]->Read(&event));  // he is there
  // One after the other, so that the first is the oldest.
  constexpr size_t kMost = EventWatches::kBounds.of_holder;
  Note(1, 2);
  for (size_t i = 0; i <= kMost; ++i) {
    const auto connection = i % 16 == 0 ? &stubs.emplace_back(Connect("name:alice")) : &stubs.back();
    watch(**connection);
    ASSERT_TRUE(streams.back()->Read(&event));
  }
  while (streams[1]->Read(&event)) continue;
  const grpc::Status status = streams[1]->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "too many watch: 64 watches of one holder may, and 1024 in all, and then his oldest ends");
  Note(2, 3, "name:bob");
  for (;;) {
    ASSERT_TRUE(streams[0]->Read(&event));
    if (event.object() == "2") break;
  }
  for (const auto& context : contexts) context->TryCancel();
}

TEST_F(EventCallsTest, WhatIsAskedForHasBounds) {
  Note(0, 3);
  Note(3, 4, "name:bob");
  control::v1::ListEventsRequest request;
  EXPECT_EQ(List(request, "name:alice").events_size(), 3);
  EXPECT_EQ(List(request, "uid:0").events_size(), 5);  // the placer's start is his as well
  request.set_limit(2);
  const EventList page = List(request, "name:alice");
  EXPECT_TRUE(page.more());
  EXPECT_EQ(page.events(0).object(), "1");
  EXPECT_EQ(page.last_number(), List({}, "uid:0").last_number());
  for (const auto& [of, limit, audit, code, words] :
       {std::tuple{std::string(257, 'x'), 0U, false, grpc::StatusCode::INVALID_ARGUMENT, "256 bytes at most"},
        {"", 4'001U, false, grpc::StatusCode::INVALID_ARGUMENT, "limit is 4000 at most, and not 4001"},
        {"", 0U, true, grpc::StatusCode::PERMISSION_DENIED, "name:alice may not see the audit"}}) {
    request.set_of(of);
    request.set_limit(limit);
    request.set_audit(audit);
    grpc::ClientContext context;
    EventList list;
    const grpc::Status status = Connect("name:alice")->ListEvents(&context, request, &list);
    EXPECT_EQ(status.error_code(), code);
    EXPECT_NE(status.error_message().find(words), std::string::npos) << status.error_message();
  }
}

}  // namespace
}  // namespace tessera
