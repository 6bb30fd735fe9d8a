// Clients that want too much: more of everything than a server should hold for one session, and every call with forged values.
// The limits are those of server/README.md, "What a client can make the server hold".
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>
#include <set>

#include "generated/messages/copy.h"
#include "generated/messages/event.h"
#include "generated/messages/host_memory.h"
#include "generated/messages/pool.h"
#include "generated/messages/set.h"
#include "generated/messages/stream.h"
#include "protocol/channel/channel.h"
#include "protocol/memory/copy_route.h"
#include "protocol/memory/window_table.h"
#include "tests/protocol/spec/message_check.h"
#include "tests/server/daemon/hostile_fixture.h"

namespace tessera {
namespace {

constexpr int kInvalidValue = 1;  // CUDA_ERROR_INVALID_VALUE
constexpr int kOutOfMemory = 2;   // CUDA_ERROR_OUT_OF_MEMORY

class HostileFloodTest : public HostileClientTest {
 protected:
  // All that the server has said; it waits when nobody reads that.
  const std::string& Log() {
    daemon_->WaitForLog("no line has this", 1);
    return daemon_->log();
  }

  // The sessions of others go on, and new ones begin.
  void ServesOthers() {
    RawClient other(path_);
    ASSERT_TRUE(other.ok()) << daemon_->log();
    EXPECT_TRUE(other.RetainContext());
    EXPECT_EQ(other.Call(cuStreamSynchronizeRequest{}), 0);
  }
};

template <typename Request>
std::vector<std::byte> Encoded(const Request& request) {
  Encoder encoder;
  request.Encode(encoder);
  return {encoder.bytes().begin(), encoder.bytes().end()};
}

TEST_F(HostileFloodTest, RingsAreAsLargeAsTheServerWants) {
  ChannelSizes giant;
  giant.command_bytes = giant.reply_bytes = giant.answer_bytes = 1u << 31;
  giant.staging_bytes = uint64_t{1} << 50;
  RawClient client(path_, giant);
  if (client.ok()) {  // with smaller ones
    EXPECT_LE(client.welcome().sizes.command_bytes, kCommandBytesMax);
    EXPECT_LE(client.welcome().sizes.reply_bytes, kReplyBytesMax);
    EXPECT_LE(client.welcome().sizes.answer_bytes, kSmallRingBytesMax);
    EXPECT_LE(client.welcome().sizes.staging_bytes, kStagingBytesMax);
  }
  ServesOthers();
}

TEST_F(HostileFloodTest, GiantSizesAreRefused) {
  RawClient client(path_);
  ASSERT_TRUE(client.ok() && client.RetainContext());
  for (const uint64_t bytes : {uint64_t{1} << 62, uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 4095, uint64_t{1} << 45}) {
    EXPECT_EQ(Allocate(client, bytes), 0u) << bytes;
    cuMemAllocAsyncRequest in_order;
    in_order.bytesize = bytes;
    EXPECT_EQ(client.Call(in_order), kOutOfMemory) << bytes;
    const uint64_t memory = Allocate(client, 4096);
    ASSERT_NE(memory, 0u);
    cuMemsetD8_v2Request set;
    set.dst = memory;
    set.element_bytes = 1;
    set.width = bytes;
    set.height = 1;
    EXPECT_EQ(client.Call(set), kInvalidValue) << bytes;
    set.width = 16;
    set.pitch = bytes;
    set.height = 1 << 20;
    EXPECT_EQ(client.Call(set), kInvalidValue) << bytes;
    cuMemFree_v2Request free;
    free.dptr = memory;
    EXPECT_EQ(client.Call(free), 0);
  }
  EXPECT_EQ(client.Call(cuStreamSynchronizeRequest{}), 0);
}

TEST_F(HostileFloodTest, ForeignPointersAreNoMemory) {
  RawClient owner(path_);
  ASSERT_TRUE(owner.ok() && owner.RetainContext());
  const uint64_t theirs = Allocate(owner, 1 << 20);
  RawClient client(path_);
  ASSERT_TRUE(client.ok() && client.RetainContext());
  const uint64_t own = Allocate(client, 1 << 20);
  ASSERT_NE(own, 0u);
  for (const uint64_t address :
       {theirs + (uint64_t{1} << 33), uint64_t{4096}, own + (uint64_t{1} << 33), ~uint64_t{0}, uint64_t{0x7f0000000000}}) {
    cuMemFree_v2Request free;
    free.dptr = address;
    EXPECT_EQ(client.Call(free), kInvalidValue) << std::hex << address;
    cuMemsetD8_v2Request set;
    set.dst = address;
    set.element_bytes = 1;
    set.width = 1 << 20;
    set.height = 1;
    EXPECT_EQ(client.Call(set), kInvalidValue) << std::hex << address;
  }
  EXPECT_EQ(client.Call(cuStreamSynchronizeRequest{}), 0);
  EXPECT_EQ(owner.Call(cuStreamSynchronizeRequest{}), 0);
}

// A client that asks and does not listen: its ring of replies is full at once, and its calls wait in the worker.
TEST_F(HostileFloodTest, AClientThatDoesNotReadHoldsUpItselfAlone) {
  ChannelSizes sizes;
  sizes.reply_bytes = 4096;
  RawClient client(path_, sizes);
  ASSERT_TRUE(client.ok() && client.RetainContext());
  const std::vector<std::byte> ask = Encoded(cuStreamSynchronizeRequest{});
  const std::vector<pid_t> workers = daemon_->Children();
  ASSERT_EQ(workers.size(), 1u);
  const Usage before = UsageOf(workers[0]);
  constexpr int kAsked = 100'000;
  for (int i = 0; i < kAsked; ++i) {
    if (!client.SendPatiently(cuStreamSynchronizeRequest::kId, ask, kWantsReply, 1'000))
      break;  // the ring of commands is full too
  }
  ServesOthers();
  // Some 300 bytes a call, and the rings.
  EXPECT_LE(UsageOf(workers[0]).resident_kib, before.resident_kib + 64 * 1024);
  EXPECT_FALSE(SocketHungUp(client.socket()));
  // It listens: everything goes on.
  const uint64_t last = client.Send(cuStreamSynchronizeRequest{});
  const auto reply = client.WaitFor(last != 0 ? last : 100);
  ASSERT_TRUE(reply.has_value()) << Log();
  EXPECT_EQ(reply->header.result, 0);
}

TEST_F(HostileFloodTest, SegmentsHaveALimit) {
  RawClient client(path_);
  ASSERT_TRUE(client.ok() && client.RetainContext());
  Result<UniqueFd> file = CreateSegmentFile("hostile", 4096);
  ASSERT_TRUE(file.ok());
  const WindowPair windows = SessionWindows(0, 0);
  constexpr uint32_t kOffered = 17'000;
  int refused = 0;
  for (uint32_t i = 0; i < kOffered; ++i) {
    cuMemHostAllocRequest use;
    use.segment = 2 + 2 * i;  // ids of a client are even
    use.address = windows.host.base + i * uint64_t{4096};
    use.segment_bytes = 4096;
    Encoder encoder;
    SegmentOffer{use.segment, SegmentKind::kHostMemory, use.segment_bytes, use.address, 0}.Encode(encoder);
    const int fd = file->get();
    ASSERT_TRUE(SendMessage(client.socket(), encoder.bytes(), std::span(&fd, 1), MonotonicNs() + 5'000'000'000).ok())
        << i << Log();
    // The worker looks into its socket when a record names a segment that it does not know.
    const bool last = i + 1 == kOffered;
    if (i % 32 != 0 && !last) continue;
    const auto result = client.Call(use);
    ASSERT_TRUE(result.has_value()) << i << Log();
    if (*result != 0) ++refused;
    if (last) {
      EXPECT_NE(*result, 0);
    }
  }
  EXPECT_GT(refused, 1);
  EXPECT_EQ(client.Call(cuStreamSynchronizeRequest{}), 0);
  const std::string log = Log();
  const std::string sentence = "more than 16384 segments";
  int told = 0;
  for (size_t at = log.find(sentence); at != std::string::npos; at = log.find(sentence, at + 1)) ++told;
  EXPECT_GE(told, 1) << log;
  EXPECT_LE(told, 8) << "the client fills the log";
  client.HangUp();
  WaitForNoWorkers();
  ServesOthers();
}

TEST_F(HostileFloodTest, ThreadsHaveALimit) {
  RawClient client(path_);
  ASSERT_TRUE(client.ok() && client.RetainContext());
  const std::vector<std::byte> ask = Encoded(cuStreamSynchronizeRequest{});
  constexpr uint32_t kThreads = 65536;
  for (uint32_t thread = 2; thread < 2 + kThreads; ++thread) {
    client.SetThread(thread);
    ASSERT_TRUE(client.SendPatiently(cuStreamSynchronizeRequest::kId, ask, kPerThreadStream)) << thread;
  }
  client.SetThread(1);
  ASSERT_EQ(client.Call(cuStreamSynchronizeRequest{}), 0);
  client.SetThread(2 + kThreads);
  const uint64_t sequence = client.Send(cuStreamSynchronizeRequest{}, kWantsReply | kPerThreadStream);
  const auto reply = client.WaitFor(sequence);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->header.result, kOutOfMemory);
  client.HangUp();
  WaitForNoWorkers();
  ServesOthers();
}

// Its memory has no bound but the machine's: when that is spent, it is this worker that ends.
TEST_F(HostileFloodTest, AWorkerIsTheFirstToRunOutOfMemory) {
  RawClient client(path_);
  ASSERT_TRUE(client.ok());
  const std::vector<pid_t> workers = daemon_->Children();
  ASSERT_EQ(workers.size(), 1u);
  const auto score = [](pid_t pid) {
    int value = -1;
    std::ifstream("/proc/" + std::to_string(pid) + "/oom_score_adj") >> value;
    return value;
  };
  EXPECT_EQ(score(workers[0]), 500);
  EXPECT_LT(score(daemon_->pid()), 500);
}

TEST_F(HostileFloodTest, StreamsAndEventsGoWithTheirSession) {
  const size_t before = UsageOf(daemon_->pid()).resident_kib;
  RawClient client(path_);
  ASSERT_TRUE(client.ok() && client.RetainContext());
  HandleAllocator handles(HandleAllocator::Side::kClient, 0);
  handles.Mint(HandleKind::kContext);  // RetainContext() has minted the same
  for (int i = 0; i < 20'000; ++i) {
    cuStreamCreateRequest stream;
    stream.phStream = handles.Mint(HandleKind::kStream);
    ASSERT_TRUE(client.SendPatiently(stream.kId, Encoded(stream), 0));
    for (int j = 0; j < 4; ++j) {
      cuEventCreateRequest event;
      event.phEvent = handles.Mint(HandleKind::kEvent);
      ASSERT_TRUE(client.SendPatiently(event.kId, Encoded(event), 0));
      cuEventRecordRequest record;
      record.hEvent = event.phEvent;
      record.hStream = stream.phStream;
      ASSERT_TRUE(client.SendPatiently(record.kId, Encoded(record), 0));
    }
  }
  EXPECT_EQ(client.Call(cuStreamSynchronizeRequest{}), 0) << Log();
  ServesOthers();
  client.HangUp();
  WaitForNoWorkers();
  EXPECT_LE(UsageOf(daemon_->pid()).resident_kib, before + 1024);
}

TEST_F(HostileFloodTest, EveryCallWithForgedValues) {
  std::unique_ptr<RawClient> client;
  std::vector<HandleId> handles;
  const auto begin = [&] {
    client = std::make_unique<RawClient>(path_);
    ASSERT_TRUE(client->ok()) << daemon_->log();
    ASSERT_TRUE(client->RetainContext());
    HandleAllocator minted(HandleAllocator::Side::kClient, 0);
    handles = {minted.Mint(HandleKind::kContext), minted.Mint(HandleKind::kStream), minted.Mint(HandleKind::kEvent), HandleId()};
    cuStreamCreateRequest stream;
    stream.phStream = handles[1];
    ASSERT_EQ(client->Call(stream), 0);
    cuEventCreateRequest event;
    event.phEvent = handles[2];
    ASSERT_EQ(client->Call(event), 0);
  };
  std::set<uint32_t> ids;
  ASSERT_NO_FATAL_FAILURE(begin());
  for (const TestedMessage& message : AllMessages()) {
    if (!std::string_view(message.name).ends_with("Request")) continue;
    SCOPED_TRACE(message.name);
    ids.insert(message.id);
    // With handles of its own, with handles that are none, and only the first half of it.
    for (const auto& [named, half] :
         {std::pair(handles, false), std::pair(std::vector<HandleId>(), false), std::pair(handles, true)}) {
      ValueSource source(message.id, named);
      Encoder encoder;
      message.encode(source, encoder);
      const auto bytes = encoder.bytes().first(half ? encoder.bytes().size() / 2 : encoder.bytes().size());
      const bool sent = !SocketHungUp(client->socket()) && client->SendBytes(message.id, bytes, kWantsReply) != 0;
      // The session has ended, or its stream waits for what never comes, which natively is the program's affair as well.
      if (!sent || !client->WaitFor(client->Send(cuStreamSynchronizeRequest{}), 500)) {
        ASSERT_NO_FATAL_FAILURE(begin());
      }
    }
    ASSERT_EQ(Log().find("was killed by signal"), std::string::npos) << Log();
  }
  EXPECT_GT(ids.size(), 300u);
  client->HangUp();
  WaitForNoWorkers();
  EXPECT_EQ(Log().find("was killed by signal"), std::string::npos) << Log();
  ServesOthers();
}

}  // namespace
}  // namespace tessera
