// The keeper of usage records as a process of its own, over its socket.
#include "server/usage/usage_keeper.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/channel/unix_socket.h"
#include "server/usage/usage_store.h"
#include "tests/server/usage/usage_fixture.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

class UsageKeeperTest : public UsageDirectoryTest {
 protected:
  void TearDown() override {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    UsageDirectoryTest::TearDown();
  }

  // What it says of its directory.
  std::string Start(const std::string& directory) {
    Result<std::pair<UniqueFd, UniqueFd>> ends = MakeSocketPair();
    EXPECT_TRUE(ends.ok());
    int opened[2];
    EXPECT_EQ(pipe(opened), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(opened[0]);
      ends->first.reset();
      UsageKeeperOptions options;
      options.directory = directory;
      options.opened.reset(opened[1]);
      _exit(RunUsageKeeper(std::move(ends->second), std::move(options)).ok() ? 0 : 1);
    }
    close(opened[1]);
    line_ = std::move(ends->first);
    std::string said(1024, '\0');
    size_t size = 0;
    for (ssize_t got = 1; got > 0; size += static_cast<size_t>(std::max<ssize_t>(got, 0)))
      got = read(opened[0], said.data() + size, said.size() - size);
    close(opened[0]);
    return said.substr(0, size);
  }
  template <typename Message>
  void Send(const Message& message) {
    Encoder out(kUsageMessageBytesMax);
    message.Encode(out);
    EXPECT_TRUE(SendMessage(line_.get(), out.bytes(), {}, MonotonicNs() + 10'000'000'000).ok());
  }
  UsageAnswer Ask(UsageQuery query) {
    query.id = 42;
    Send(query);
    UsageAnswer all;
    for (;;) {
      Result<SocketMessage> message = ReceiveMessage(line_.get(), kUsageMessageBytesMax, MonotonicNs() + 20'000'000'000);
      EXPECT_TRUE(message.ok());
      if (!message.ok()) return all;
      Result<UsageAnswer> answer = UsageAnswer::Decode(message->bytes);
      EXPECT_TRUE(answer.ok());
      EXPECT_EQ(answer->id, 42U);
      all.code = answer->code;
      all.sentence = answer->sentence;
      all.rows.insert(all.rows.end(), answer->rows.begin(), answer->rows.end());
      if (!answer->goes_on) return all;
    }
  }
  int End() {
    kill(pid_, SIGTERM);
    int status = -1;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

  UniqueFd line_;
  pid_t pid_ = -1;
};

TEST_F(UsageKeeperTest, WhatWasToldIsAnsweredAndThereAfterItsEnd) {
  const std::string directory = directory_ + "/made/by.it";
  ASSERT_EQ(Start(directory), "");
  const int64_t now = time(nullptr);
  for (int i = 0; i < 300; ++i) Send(UsageBatch{now - i, {UsageRecord("v" + std::to_string(i), {1, 0, 0, 0, 0})}});
  EXPECT_EQ(Ask(UsageOf("", 0, now + 1)).rows.size(), 300U);  // in two parts
  Send(UsageBatch{now, {UsageRecord("last", {5, 0, 0, 0, 0})}});
  EXPECT_EQ(End(), 0);
  Result<UsageStore> store = UsageStore::Open(directory);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(store->Ask(UsageOf("last", 0, now + 1))->at(0).sums.busy_us, 5U);
}

TEST_F(UsageKeeperTest, OldRecordsGoAtTheStart) {
  {
    Result<UsageStore> store = UsageStore::Open(directory_);
    const UsageBatch old{1'000, {UsageRecord("old", {1, 0, 0, 0, 0})}};
    ASSERT_TRUE(store->Write(std::span(&old, 1)).ok());
  }
  ASSERT_EQ(Start(directory_), "");
  const uint64_t until_ns = MonotonicNs() + 10'000'000'000;
  while (!Ask(UsageOf("old", 0, 2'000)).rows.empty()) ASSERT_LT(MonotonicNs(), until_ns);
}

TEST_F(UsageKeeperTest, ADamagedDatabaseIsSaidAndItGoesOn) {
  std::ofstream(database()) << std::string(8192, 'x');
  EXPECT_THAT(Start(directory_), HasSubstr("it is damaged: move it away"));
  Send(UsageBatch{time(nullptr), {UsageRecord("a", {1, 0, 0, 0, 0})}});
  EXPECT_EQ(Ask(UsageOf("")).code, StatusCode::kUnavailable);
  EXPECT_EQ(End(), 0);
}

TEST_F(UsageKeeperTest, ADirectoryThatCannotBe) {
  EXPECT_THAT(Start("/proc/nowhere/usage"), HasSubstr("cannot make the directory /proc/nowhere/usage"));
  EXPECT_EQ(Ask(UsageOf("")).code, StatusCode::kUnavailable);
}

TEST_F(UsageKeeperTest, ADirectoryThatOthersReadIsRefused) {
  std::filesystem::permissions(directory_, std::filesystem::perms(0755));
  EXPECT_THAT(Start(directory_), HasSubstr("others than this user may read " + directory_));
}

TEST_F(UsageKeeperTest, GarbageIsDropped) {
  ASSERT_EQ(Start(directory_), "");
  const std::vector<std::byte> garbage(1'000, std::byte{0x5A});
  EXPECT_TRUE(SendMessage(line_.get(), garbage, {}, MonotonicNs() + 1'000'000'000).ok());
  EXPECT_EQ(Ask(UsageOf("")).code, StatusCode::kOk);
}

TEST_F(UsageKeeperTest, ItEndsWithTheOtherEnd) {
  ASSERT_EQ(Start(directory_), "");
  line_.reset();
  int status = -1;
  waitpid(std::exchange(pid_, -1), &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tessera
