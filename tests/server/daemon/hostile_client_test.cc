// Clients that lie, break the rules, stop, or do not read: their session ends, with one sentence in the log, and no other.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "generated/messages/copy.h"
#include "generated/messages/host_memory.h"
#include "generated/messages/memory.h"
#include "generated/messages/stream.h"
#include "protocol/base/clock.h"
#include "protocol/channel/channel.h"
#include "protocol/memory/copy_route.h"
#include "tests/server/daemon/hostile_fixture.h"

namespace tessera {
namespace {

constexpr int kInvalidValue = 1;     // CUDA_ERROR_INVALID_VALUE
constexpr int kInvalidHandle = 400;  // CUDA_ERROR_INVALID_HANDLE
constexpr size_t kWorkerBytesRead = 4096;

// --- What ends the session. ---

struct Attack {
  const char* name;
  std::function<void(RawClient&)> act;
  const char* sentence;  // a word of the good-bye
};

// A record that is complete but for what the test says.
std::vector<std::byte> Record(size_t size, uint32_t call, uint32_t flags = kWantsReply, uint64_t sequence = 1) {
  std::vector<std::byte> record(size);
  RecordHeader header{};
  header.size_bytes = static_cast<uint32_t>(size);
  header.call = call;
  header.flags = flags;
  header.thread = 1;
  header.sequence = sequence;
  std::memcpy(record.data(), &header, sizeof(header));
  return record;
}

// Puts bytes at the beginning of the empty `commands` ring and publishes `head`.
void Forge(RawClient& client, std::span<const std::byte> bytes, uint64_t head) {
  std::memcpy(client.command_bytes(), bytes.data(), bytes.size());
  client.commands().head.store(head);
  FutexWakeAll(&client.commands().head);
}

void ForgeSize(RawClient& client, uint32_t size) {
  std::vector<std::byte> record = Record(64, cuStreamSynchronizeRequest::kId);
  std::memcpy(record.data(), &size, sizeof(size));
  Forge(client, record, 64);
}

// The worker looks into its socket when a record names a segment that it does not know.
void HaveTheSocketRead(RawClient& client) {
  cuMemHostAllocRequest unknown;
  unknown.segment = 1000;
  unknown.segment_bytes = 4096;
  client.Send(unknown);
}

void Offer(RawClient& client, uint32_t id, uint64_t bytes, uint64_t address, int fd) {
  Encoder encoder;
  SegmentOffer{id, SegmentKind::kHostMemory, bytes, address, 0}.Encode(encoder);
  ASSERT_TRUE(SendMessage(client.socket(), encoder.bytes(), std::span(&fd, fd < 0 ? 0 : 1), MonotonicNs() + 1'000'000'000).ok());
  HaveTheSocketRead(client);
}

const Attack kAttacks[] = {
    {"UnknownCall", [](RawClient& client) { client.SendBytes(0xfffe, {}); }, ""},
    {"UnknownFlags", [](RawClient& client) { client.SendBytes(cuStreamSynchronizeRequest::kId, {}, 0x80); }, ""},
    {"HalfAMessage",
     [](RawClient& client) {
       const std::byte half[4]{};
       client.SendBytes(cuMemcpyAsyncRequest::kId, half);
     },
     ""},
    {"GiantListInAMessage",
     [](RawClient& client) {
       Encoder encoder;
       cuMemcpyAsyncRequest request;
       request.route = static_cast<uint32_t>(CopyRoute::kInline);
       request.Encode(encoder);
       std::vector<std::byte> message(encoder.bytes().begin(), encoder.bytes().end());
       const uint64_t giant = uint64_t{1} << 62;  // the length of `data`, which stands last
       std::memcpy(message.data() + message.size() - sizeof(giant), &giant, sizeof(giant));
       client.SendBytes(cuMemcpyAsyncRequest::kId, message);
     },
     ""},
    {"StagingBeyondItsEnd",
     [](RawClient& client) {
       ASSERT_TRUE(client.RetainContext());
       cuMemcpyAsyncRequest copy;
       copy.route = static_cast<uint32_t>(CopyRoute::kToStaging);
       copy.src = Allocate(client, 4096);
       copy.dst = client.staging().size() - 100;
       copy.bytes = 4096;
       client.Send(copy);
     },
     ""},
    {"RecordSizeZero", [](RawClient& client) { ForgeSize(client, 0); }, "ring"},
    {"RecordSizeTiny", [](RawClient& client) { ForgeSize(client, 8); }, "ring"},
    {"RecordSizeOdd", [](RawClient& client) { ForgeSize(client, 61); }, "ring"},
    {"RecordSizeGiant", [](RawClient& client) { ForgeSize(client, 0xfffffff8); }, "ring"},
    {"RecordBeyondTheHead", [](RawClient& client) { ForgeSize(client, 128); }, "ring"},
    {"HeadBeyondTheRing",
     [](RawClient& client) { Forge(client, Record(64, 1), uint64_t{client.welcome().sizes.command_bytes} * 2); }, "ring"},
    {"HeadAtTheEndOfTime", [](RawClient& client) { Forge(client, Record(64, 1), UINT64_MAX - 7); }, "ring"},
    {"HeadInsideARecord", [](RawClient& client) { Forge(client, Record(64, 1), 61); }, "ring"},
    {"HeadThatGoesBack",
     [](RawClient& client) {
       ASSERT_EQ(client.Call(cuStreamSynchronizeRequest{}).has_value(), true);
       client.commands().head.store(8);
       FutexWakeAll(&client.commands().head);
     },
     "ring"},
    {"RepliesReadThatWereNeverWritten",
     [](RawClient& client) {
       client.replies().tail.store(uint64_t{1} << 40);
       // Found when the server next needs room: it looks at the tail when its ring seems full.
       for (int i = 0; i < 60'000 && !SocketHungUp(client.socket()); ++i) {
         if (client.Send(cuStreamSynchronizeRequest{}) == 0) {
           const Status waited = client.commands_out().WaitForSpace(64, MonotonicNs() + 1'000'000'000, [&] {
             return SocketHungUp(client.socket()) ? Status(StatusCode::kUnavailable, "") : Status::Ok();
           });
           if (!waited.ok()) break;
         }
       }
     },
     "ring"},
    {"AnAnswerToNothing",
     [](RawClient& client) {
       ReplyHeader answer{};
       answer.size_bytes = sizeof(answer);
       answer.kind = static_cast<uint32_t>(AnswerKind::kHostFunctionDone);
       answer.extra = 77;
       client.answers_out().TryAppend(std::as_bytes(std::span(&answer, 1)));
     },
     "answer"},
    {"ChangesOfMemoryThatHasNoMirror",
     [](RawClient& client) {
       ReplyHeader changes{};
       changes.size_bytes = sizeof(changes);
       changes.kind = static_cast<uint32_t>(AnswerKind::kHostChanges);
       client.answers_out().TryAppend(std::as_bytes(std::span(&changes, 1)));
     },
     "answer"},
    {"SegmentOutsideTheWindow",
     [](RawClient& client) {
       Result<UniqueFd> file = CreateSegmentFile("hostile", 4096);
       Offer(client, 2, 4096, 0x7f0000000000, file->get());
     },
     "window"},
    {"SegmentUnderAnIdOfTheServer",
     [](RawClient& client) {
       Result<UniqueFd> file = CreateSegmentFile("hostile", 4096);
       Offer(client, 5, 4096, 0, file->get());
     },
     "id"},
    {"SegmentThatIsOfferedTwice",
     [](RawClient& client) {
       Result<UniqueFd> file = CreateSegmentFile("hostile", 4096);
       Offer(client, 2, 4096, 0, file->get());
       Offer(client, 2, 4096, 0, file->get());
     },
     ""},
    {"SegmentThatCouldShrink",
     [](RawClient& client) {
       const UniqueFd file(memfd_create("hostile", MFD_CLOEXEC));
       ASSERT_EQ(ftruncate(file.get(), 4096), 0);
       Offer(client, 2, 4096, 0, file.get());
     },
     "shrink"},
    {"SegmentLargerThanItsFile",
     [](RawClient& client) {
       Result<UniqueFd> file = CreateSegmentFile("hostile", 4096);
       Offer(client, 2, uint64_t{1} << 30, 0, file->get());
     },
     ""},
    {"SegmentWithoutAFile", [](RawClient& client) { Offer(client, 2, 4096, 0, -1); }, "descriptor"},
    {"NoMessageAtAll",
     [](RawClient& client) {
       const std::byte noise[64] = {std::byte{0x41}};
       ASSERT_TRUE(SendMessage(client.socket(), noise, {}, MonotonicNs() + 1'000'000'000).ok());
       HaveTheSocketRead(client);
     },
     ""},
    {"AHelloInTheMiddle",
     [](RawClient& client) {
       Encoder encoder;
       ClientHello{}.Encode(encoder);
       ASSERT_TRUE(SendMessage(client.socket(), encoder.bytes(), {}, MonotonicNs() + 1'000'000'000).ok());
       HaveTheSocketRead(client);
     },
     "no place"},
};

class AttackTest : public HostileClientTest, public testing::WithParamInterface<Attack> {};

void PrintTo(const Attack& attack, std::ostream* out) { *out << attack.name; }

TEST_P(AttackTest, EndsThisSessionAndNoOther) {
  RawClient other(path_);
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE(other.RetainContext());
  RawClient hostile(path_);
  ASSERT_TRUE(hostile.ok());
  GetParam().act(hostile);
  const std::optional<std::string> end = hostile.End();
  ASSERT_TRUE(end.has_value()) << "the session goes on";
  EXPECT_NE(end->find(GetParam().sentence), std::string::npos) << *end;
  EXPECT_NE(*end, "");
  EXPECT_EQ(SentencesOf(2), 1) << daemon_->log();
  EXPECT_EQ(other.Call(cuStreamSynchronizeRequest{}), 0);
  EXPECT_EQ(SocketHungUp(other.socket()), false);
  RawClient next(path_);
  EXPECT_TRUE(next.ok());
}

INSTANTIATE_TEST_SUITE_P(All, AttackTest, testing::ValuesIn(kAttacks),
                         [](const auto& info) { return std::string(info.param.name); });

// --- What is refused with CUDA's own code, and the session goes on. ---

TEST_F(HostileClientTest, ForgedHandlesAreNoObjects) {
  RawClient client(path_);
  ASSERT_TRUE(client.ok() && client.RetainContext());
  for (uint64_t forged : {uint64_t{0x1234567890}, uint64_t{8}, ~uint64_t{0}, uint64_t{0x7fffdeadbeef},
                          HandleId::Of(0, HandleKind::kStream, 0, 0).value(), HandleId::Of(0, HandleKind::kContext, 0, 0).value(),
                          HandleId::Of(1, HandleKind::kStream, 0, 0).value(),
                          HandleId::Of(0, HandleKind::kStream, 0, HandleId::kServerMinted).value()}) {
    cuStreamSynchronizeRequest request;
    request.hStream = HandleId(forged);
    const auto result = client.Call(request);
    EXPECT_TRUE(result == kInvalidHandle || result == 709 /* CUDA_ERROR_CONTEXT_IS_DESTROYED */) << std::hex << forged;
  }
  EXPECT_EQ(client.Call(cuStreamSynchronizeRequest{}), 0);
}

// Memory of the worker's own, which a copy must neither read nor write.
TEST_F(HostileClientTest, MemoryOfTheWorkerIsOutOfReach) {
  RawClient client(path_);
  ASSERT_TRUE(client.ok() && client.RetainContext());
  const std::vector<pid_t> workers = daemon_->Children();
  ASSERT_EQ(workers.size(), 1u);
  std::ifstream maps("/proc/" + std::to_string(workers[0]) + "/maps");
  int tried = 0;
  std::memset(client.staging().data(), 0x77, kWorkerBytesRead);
  for (std::string line; std::getline(maps, line);) {
    unsigned long long begin = 0, end = 0;
    char permissions[8] = {};
    if (std::sscanf(line.c_str(), "%llx-%llx %7s", &begin, &end, permissions) != 3 || permissions[0] != 'r') continue;
    ++tried;
    cuMemcpyAsyncRequest read;
    read.route = static_cast<uint32_t>(CopyRoute::kToStaging);
    read.src = begin;
    read.dst = 0;
    read.bytes = std::min<uint64_t>(end - begin, kWorkerBytesRead);
    EXPECT_EQ(client.Call(read), kInvalidValue) << line;
    cuMemcpyAsyncRequest write = read;
    write.route = static_cast<uint32_t>(CopyRoute::kFromStaging);
    write.dst = begin;
    write.src = 0;
    EXPECT_EQ(client.Call(write), kInvalidValue) << line;
    const std::byte data[16]{};
    cuMemcpyAsyncRequest put = write;
    put.route = static_cast<uint32_t>(CopyRoute::kInline);
    put.data = data;
    put.bytes = sizeof(data);
    EXPECT_EQ(client.Call(put), kInvalidValue) << line;
  }
  EXPECT_GT(tried, 20);
  EXPECT_TRUE(std::all_of(client.staging().begin(), client.staging().begin() + kWorkerBytesRead,
                          [](std::byte byte) { return byte == std::byte{0x77}; }));
  // A range that begins where it may and ends where it may not, and one that wraps around.
  cuMemcpyAsyncRequest wrap;
  wrap.route = static_cast<uint32_t>(CopyRoute::kDirect);
  wrap.src = wrap.dst = UINT64_MAX - 4095;
  wrap.bytes = 8192;
  EXPECT_EQ(client.Call(wrap), kInvalidValue);
  EXPECT_EQ(client.Call(cuStreamSynchronizeRequest{}), 0);
}

// A record may be as large as a quarter of the ring, and not a byte larger.
TEST_F(HostileClientTest, TheLargestRecordArrivesWhole) {
  RawClient client(path_);
  ASSERT_TRUE(client.ok() && client.RetainContext());
  const uint64_t memory = Allocate(client, 2 << 20);
  ASSERT_NE(memory, 0u);
  Encoder empty;
  cuMemcpyAsyncRequest put;
  put.Encode(empty);
  std::vector<std::byte> data(client.commands_out().record_bytes_max() - sizeof(RecordHeader) - empty.size());
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 31);
  put.route = static_cast<uint32_t>(CopyRoute::kInline);
  put.dst = memory;
  put.bytes = data.size();
  put.data = data;
  ASSERT_EQ(client.Call(put), 0);
  cuMemcpyAsyncRequest get;
  get.route = static_cast<uint32_t>(CopyRoute::kToStaging);
  get.src = memory;
  get.bytes = data.size();
  ASSERT_EQ(client.Call(get), 0);
  EXPECT_EQ(std::memcmp(client.staging().data(), data.data(), data.size()), 0);
}

// --- Time. ---

TEST_F(HostileClientTest, AClientThatSaysNothingLosesItsPlace) {
  Start({"--hello-timeout", "2"});
  const UniqueFd silent = ConnectTo(path_);
  ASSERT_TRUE(silent.valid());
  const uint64_t begin_ns = MonotonicNs();
  Result<SocketMessage> refusal = ReceiveMessage(silent.get(), kControlMessageBytesMax, MonotonicNs() + 20'000'000'000);
  const uint64_t waited_ns = MonotonicNs() - begin_ns;
  EXPECT_GE(waited_ns, 1'800'000'000u);
  EXPECT_LE(waited_ns, 7'000'000'000u);
  EXPECT_TRUE(daemon_->WaitForLog("connected and said nothing")) << daemon_->log();
}

// --- Leaks: of the daemon, over many sessions that end in many ways. ---

TEST_F(HostileClientTest, ThreeHundredSessionsLeaveNothingBehind) {
  const auto one_session = [&](int number) {
    RawClient client(path_);
    ASSERT_TRUE(client.ok()) << daemon_->log();
    switch (number % 5) {
      case 0: client.SendBytes(0xfffe, {}); break;
      case 1: EXPECT_TRUE(client.RetainContext()); break;
      case 2: ForgeSize(client, 8); break;
      case 3: {
        Result<UniqueFd> file = CreateSegmentFile("leak", 1 << 20);
        Offer(client, 2, 1 << 20, 0, file->get());
        break;
      }
      default: break;
    }
  };
  for (int i = 0; i < 20; ++i) one_session(i);
  WaitForNoWorkers();
  const Usage before = UsageOf(daemon_->pid());
  for (int i = 0; i < 300; ++i) {
    one_session(i);
    // The supervisor's last word; and the log is read, so that its pipe does not fill up.
    ASSERT_TRUE(daemon_->WaitForLog("session " + std::to_string(i + 21) + " of pid ")) << daemon_->log();
  }
  WaitForNoWorkers();
  const Usage after = UsageOf(daemon_->pid());
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_LE(after.resident_kib, before.resident_kib + 1024);
}

}  // namespace
}  // namespace tessera
