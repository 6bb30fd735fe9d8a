// A keeper's process that connects: what it hands over, what it has of the keeper, and when it ends.
#include "protocol/keeper/dialler.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "protocol/base/clock.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/keeper/keeper_words.h"

namespace tessera {
namespace {

uint64_t Soon() { return MonotonicNs() + 10'000'000'000; }

// What a process that does `dial` says.
Result<ReceivedWord> Ask(Dialler& dialler, uint64_t deadline_ns = 0) {
  std::pair<UniqueFd, UniqueFd> pair = MakeSocketPair().value();
  dialler.Dial(pair.second.get(), deadline_ns);
  pair.second.reset();
  return ReceiveWord(pair.first.get(), Soon());
}
ReceivedWord Said(const DialFunction& dial, uint64_t deadline_ns = 0) {
  Dialler dialler(dial);
  return Ask(dialler, deadline_ns).value();
}

TEST(Dialler, HandsAConnectionOver) {
  const DialFunction dial = [](uint64_t deadline_ns) -> Result<UniqueFd> {
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], &deadline_ns, 1) != 1) return Status::FromErrno("pipe", errno);
    return UniqueFd(ends[0]);
  };
  const ReceivedWord said = Said(dial, 42);
  EXPECT_EQ(said.message.word, KeeperWord::kDialled);
  ASSERT_EQ(said.fds.size(), 1u);
  char byte = 0;
  EXPECT_EQ(read(said.fds[0].get(), &byte, 1), 1);
  EXPECT_EQ(byte, 42);
}

TEST(Dialler, SaysWhyThereIsNone) {
  const ReceivedWord said = Said([](uint64_t) -> Result<UniqueFd> { return Status(StatusCode::kNotFound, "no such host"); });
  EXPECT_EQ(said.fds.size(), 0u);
  EXPECT_EQ(static_cast<StatusCode>(said.message.value), StatusCode::kNotFound);
  EXPECT_EQ(said.text, "no such host");
}

TEST(Dialler, AnotherOneFollowsOneThatDies) {
  Dialler dialler([](uint64_t deadline_ns) -> Result<UniqueFd> {
    if (deadline_ns == 1) _exit(3);
    return Status(StatusCode::kNotFound, "no such host");
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Ask(dialler, 1).status().code(), StatusCode::kUnavailable);
    // One that is about to end may still take a question.
    Result<ReceivedWord> said = Ask(dialler, 2);
    for (const uint64_t end_ns = Soon(); !said.ok() && MonotonicNs() < end_ns;) said = Ask(dialler, 2);
    EXPECT_EQ(said.value().text, "no such host");
  }
}

TEST(Dialler, NobodyWaitsForAnother) {
  Dialler dialler([](uint64_t deadline_ns) -> Result<UniqueFd> {
    if (deadline_ns == 1) pause();
    return Status(StatusCode::kNotFound, "no such host");
  });
  std::pair<UniqueFd, UniqueFd> pair = MakeSocketPair().value();
  dialler.Dial(pair.second.get(), 1);
  EXPECT_EQ(Ask(dialler, 2).value().text, "no such host");
}

// A session of which it held something would end only with it.
TEST(Dialler, HasNothingOfTheKeeper) {
  const UniqueFd held[] = {UniqueFd(dup(0)), UniqueFd(dup(0)), UniqueFd(dup(0)), UniqueFd(dup(0))};
  ASSERT_TRUE(held[3].valid());
  const ReceivedWord said = Said([](uint64_t) -> Result<UniqueFd> {
    std::string open;
    for (int fd = 0; fd < 1024; ++fd) {
      if (fcntl(fd, F_GETFD) >= 0) open += std::to_string(fd) + " ";
    }
    open += std::filesystem::read_symlink("/proc/self/fd/2").string();
    return Status(StatusCode::kNotFound, open);
  });
  EXPECT_EQ(said.text, "0 1 2 3 4 /dev/null");  // the question's socket besides
}

TEST(Dialler, EndsWithItsKeeper) {
  std::pair<UniqueFd, UniqueFd> pair = MakeSocketPair().value();
  const pid_t keeper = fork();
  if (keeper == 0) {
    const DialFunction never = [](uint64_t) -> Result<UniqueFd> {
      for (;;) pause();
    };
    Dialler dialler(never);
    dialler.Dial(pair.second.get(), 0);
    for (;;) pause();
  }
  pair.second.reset();
  pollfd ended = {pair.first.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 100), 0);
  kill(keeper, SIGKILL);
  waitpid(keeper, nullptr, 0);
  EXPECT_EQ(poll(&ended, 1, 10'000), 1);
}

}  // namespace
}  // namespace tessera
