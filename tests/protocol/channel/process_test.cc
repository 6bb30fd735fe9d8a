// Channels between two processes: the child of fork() is the server.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "protocol/memory/window_table.h"
#include "tests/protocol/channel/channel_fixture.h"

namespace tessera {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kManyRecords = 50'000;
#else
constexpr uint64_t kManyRecords = 1'000'000;
#endif

// A server process. The channel is handed to `serve`; its result is the exit code.
class ServerProcess {
 public:
  ServerProcess(UniqueFd own_socket, UniqueFd& client_socket, const std::function<int(Channel&)>& serve) {
    pid_ = fork();
    if (pid_ != 0) return;
    client_socket.reset();  // or the server would keep its own client alive
    Result<std::unique_ptr<Channel>> channel = ServeOne(std::move(own_socket));
    _exit(channel.ok() ? serve(**channel) : 99);
  }
  ~ServerProcess() {
    if (pid_ > 0) Kill();
  }
  void Kill() {
    kill(pid_, SIGKILL);
    Join();
  }
  int Join() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
};

class ProcessTest : public testing::Test {
 protected:
  void Start(const std::function<int(Channel&)>& serve) {
    auto [client, server] = SocketPair();
    process_ = std::make_unique<ServerProcess>(std::move(server), client, serve);
    ServerWelcome welcome;
    Result<std::unique_ptr<Channel>> channel = Channel::Attach(std::move(client), TestHello(), &welcome, Soon());
    ASSERT_TRUE(channel.ok()) << channel.status().message();
    client_ = std::move(*channel);
  }
  std::unique_ptr<ServerProcess> process_;
  std::unique_ptr<Channel> client_;
};

TEST_F(ProcessTest, AMillionRecordsAreEchoed) {
  Start([](Channel& channel) {
    RecordBuffer buffer;
    for (uint64_t i = 0; i < kManyRecords;) {
      const auto record = channel.commands_in().CopyOut(&buffer);
      if (record.empty()) {
        if (!channel.commands_in().Wait(kNoDeadline, channel.stop()).ok()) return 1;
        continue;
      }
      if (!IsTestRecord(i, record, 8192)) return 2;
      ++i;
    }
    return ProduceTestRecords(channel.replies_out(), kManyRecords, channel.stop()).ok() ? 0 : 3;
  });
  ASSERT_EQ(client_->commands_out().record_bytes_max() / 2, 8192u);
  std::vector<std::byte> record;
  for (uint64_t i = 0; i < kManyRecords; ++i) {
    record.resize(TestRecordSize(i, 8192));
    FillTestRecord(i, record);
    while (!client_->commands_out().TryAppend(record)) {
      ASSERT_TRUE(client_->commands_out().WaitForSpace(record.size(), kNoDeadline, client_->stop()).ok());
    }
  }
  const Status status = ConsumeTestRecords(client_->replies_in(), kManyRecords, 8192, client_->stop());
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(process_->Join(), 0);
}

TEST_F(ProcessTest, AKilledPeerIsNoticed) {
  Start([](Channel&) {
    for (;;) pause();
    return 0;
  });
  std::atomic<uint64_t> noticed_ns{0};
  std::thread waiter([&] {
    EXPECT_EQ(client_->replies_in().Wait(kNoDeadline, client_->stop()).code(), StatusCode::kUnavailable);
    noticed_ns = MonotonicNs();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const uint64_t killed_ns = MonotonicNs();
  process_->Kill();
  waiter.join();
  EXPECT_LT(noticed_ns - killed_ns, 1'000'000'000u);
  EXPECT_FALSE(client_->peer_left());
}

TEST_F(ProcessTest, AKilledConsumerEndsTheProducersWait) {
  Start([](Channel&) {
    for (;;) pause();
    return 0;
  });
  while (client_->commands_out().TryAppend(TestRecord(1, 1024))) {
  }
  std::thread waiter([&] {
    EXPECT_EQ(client_->commands_out().WaitForSpace(1024, kNoDeadline, client_->stop()).code(), StatusCode::kUnavailable);
  });
  const uint64_t killed_ns = MonotonicNs();
  process_->Kill();
  waiter.join();
  EXPECT_LT(MonotonicNs() - killed_ns, 10'000'000'000u);
}

TEST_F(ProcessTest, ThePeerSeesThatWeLeave) {
  Start([](Channel& channel) {
    const Status status = channel.commands_in().Wait(kNoDeadline, channel.stop());
    return status.code() == StatusCode::kUnavailable && channel.peer_left() ? 0 : 1;
  });
  client_->Leave();
  EXPECT_EQ(process_->Join(), 0);
}

TEST_F(ProcessTest, PinnedMemoryHasOneAddressInBothProcesses) {
  const WindowPair windows = SessionWindows(kSanitizedRow, 0);  // the row that sanitizers allow
  const uint64_t address = windows.host.base, bytes = 1u << 20;
  Start([=](Channel& channel) {
    if (!ReserveAddressRange(address, bytes).ok()) return 1;
    channel.SetHostWindow(address, bytes);
    Result<uint64_t> value = NextValue(channel.commands_in(), channel.stop());
    if (!value.ok()) return 2;
    const auto there = channel.Resolve(2, 4096, 8);
    if (reinterpret_cast<uint64_t>(there.data()) != address + 8192 + 4096) return 3;
    if (std::memcmp(there.data(), "pointer!", 8) != 0) return 4;
    std::memcpy(there.data(), "answered", 8);
    return channel.replies_out().TryAppend(TestRecord(1)) ? 0 : 5;
  });
  ASSERT_TRUE(ReserveAddressRange(address, bytes).ok());
  Result<uint32_t> id = client_->OfferSegment(SegmentKind::kHostMemory, 16'384, MapPlacement::OverReservation(address + 8192));
  ASSERT_TRUE(id.ok());
  ASSERT_EQ(*id, 2u);
  std::byte* memory = client_->segments().Find(*id).data();
  ASSERT_EQ(reinterpret_cast<uint64_t>(memory), address + 8192);
  std::memcpy(memory + 4096, "pointer!", 8);
  ASSERT_TRUE(client_->commands_out().TryAppend(TestRecord(1)));
  EXPECT_TRUE(NextValue(client_->replies_in(), client_->stop()).ok());
  EXPECT_EQ(std::memcmp(memory + 4096, "answered", 8), 0);
  EXPECT_EQ(process_->Join(), 0);
  EXPECT_TRUE(client_->CloseSegment(*id).ok());
  ReleaseAddressRange(address, bytes);
}

// fork() in a client without exec: the child must neither disturb the parent's session nor keep it alive.
TEST_F(ProcessTest, AForkedChildAbandonsTheChannel) {
  Start([](Channel& channel) {
    for (;;) {
      Result<uint64_t> value = NextValue(channel.commands_in(), channel.stop());
      if (!value.ok()) return channel.peer_left() ? 1 : 0;  // vanished, although a child of it still lives
      if (!channel.replies_out().TryAppend(TestRecord(*value + 1))) return 2;
    }
  });
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    client_->AbandonInChild();
    client_.reset();
    (void)!write(ready[1], "x", 1);
    for (;;) pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_TRUE(client_->commands_out().TryAppend(TestRecord(5)));
  EXPECT_EQ(NextValue(client_->replies_in(), client_->stop()).value(), 6u);
  // The parent goes away without a word, as when killed; the child lives on.
  const uint64_t gone_ns = MonotonicNs();
  client_->AbandonInChild();
  static Channel* const kept = client_.release();  // its destructor would leave its memory behind on purpose
  EXPECT_NE(kept, nullptr);
  EXPECT_EQ(process_->Join(), 0);
  EXPECT_LT(MonotonicNs() - gone_ns, 10'000'000'000u);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

// Four processes on however few cores there are: bounded spinning must leave the others room to run.
TEST(Processes, FourOnTwoCoresGetOn) {
  constexpr uint64_t kRoundTrips = 2'000;
  const uint64_t begin_ns = MonotonicNs();
  std::vector<pid_t> clients;
  for (int i = 0; i < 2; ++i) {
    const pid_t pid = fork();
    if (pid != 0) {
      clients.push_back(pid);
      continue;
    }
    auto [client, server] = SocketPair();
    ServerProcess process(std::move(server), client, [](Channel& channel) {
      for (uint64_t n = 0; n < kRoundTrips; ++n) {
        Result<uint64_t> value = NextValue(channel.commands_in(), channel.stop());
        if (!value.ok() || !channel.replies_out().TryAppend(TestRecord(*value + 1))) return 1;
      }
      return 0;
    });
    ServerWelcome welcome;
    Result<std::unique_ptr<Channel>> channel = Channel::Attach(std::move(client), TestHello(), &welcome, Soon());
    if (!channel.ok()) _exit(1);
    for (uint64_t n = 0; n < kRoundTrips; ++n) {
      if (!(*channel)->commands_out().TryAppend(TestRecord(n))) _exit(2);
      Result<uint64_t> value = NextValue((*channel)->replies_in(), (*channel)->stop());
      if (!value.ok() || *value != n + 1) _exit(3);
    }
    _exit(process.Join());
  }
  for (pid_t pid : clients) {
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  // 4,000 round trips; a collapse (a scheduler's time slice of milliseconds each) would take over ten seconds.
  EXPECT_LT(MonotonicNs() - begin_ns, 10'000'000'000u);
}

}  // namespace
}  // namespace tessera
