#include "server/daemon/message_line.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <utility>

#include "protocol/channel/unix_socket.h"

namespace tessera {
namespace {

ino_t InodeOf(int fd) {
  struct stat state {};
  EXPECT_EQ(fstat(fd, &state), 0);
  return state.st_ino;
}

struct Ends {
  Ends() {
    auto pair = MakeSocketPair();
    EXPECT_TRUE(pair.ok());
    line.Open(std::move(pair->first));
    other = std::move(pair->second);
  }
  Status Send(uint32_t number, std::span<const int> fds = {}) { return line.Send(std::as_bytes(std::span(&number, 1)), fds); }
  MessageLine line;
  UniqueFd other;
};

TEST(MessageLineTest, WhatTheOtherEndReadsLateArrivesInOrder) {
  constexpr uint32_t kCount = 1000;  // three times as many as a socket has room for
  Ends ends;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const UniqueFd read_end(pipe_ends[0]), write_end(pipe_ends[1]);
  for (uint32_t number = 0; number < kCount; ++number) {
    const int fd = write_end.get();
    ASSERT_TRUE(ends.Send(number, std::span(&fd, number % 7 == 0 ? 1 : 0)).ok()) << number;
  }
  EXPECT_GT(ends.line.kept(), 0u);
  EXPECT_EQ(ends.line.watched().events, POLLIN | POLLOUT);
  for (uint32_t number = 0; number < kCount; ++number) {
    ends.line.Flush();
    Result<SocketMessage> got = ReceiveMessage(ends.other.get(), sizeof(number), 0);
    ASSERT_TRUE(got.ok()) << number << ": " << got.status().message();
    EXPECT_EQ(*reinterpret_cast<const uint32_t*>(got->bytes.data()), number);
    ASSERT_EQ(got->fds.size(), number % 7 == 0 ? 1u : 0u) << number;
    for (const UniqueFd& fd : got->fds) EXPECT_EQ(InodeOf(fd.get()), InodeOf(write_end.get()));
  }
  EXPECT_EQ(ends.line.kept(), 0u);
  EXPECT_EQ(ends.line.watched().events, POLLIN);
}

TEST(MessageLineTest, WhatWasKeptEndsWithTheLine) {
  Ends ends;
  while (ends.line.kept() == 0) ASSERT_TRUE(ends.Send(1).ok());
  ends.other.reset();
  ends.line.Flush();
  EXPECT_EQ(ends.line.kept(), 0u);
  EXPECT_EQ(ends.Send(2).code(), StatusCode::kUnavailable);
  ends.line.Close();
  EXPECT_EQ(ends.line.watched().fd, -1);
}

}  // namespace
}  // namespace tessera
