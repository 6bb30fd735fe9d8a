#include "server/worker/device_output.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "protocol/base/log.h"

namespace tessera {
namespace {

std::string DrainText(DeviceOutput& output, std::vector<size_t>* pieces = nullptr, std::string* errors = nullptr) {
  std::string text;
  output.Drain([&](DeviceOutput::Stream stream, std::span<const std::byte> piece) {
    if (stream == DeviceOutput::Stream::kErrors) {
      if (errors != nullptr) errors->append(reinterpret_cast<const char*>(piece.data()), piece.size());
      return;
    }
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    if (pieces != nullptr) pieces->push_back(piece.size());
  });
  return text;
}

TEST(DeviceOutput, HandsOverWhatWasPrintedOnce) {
  auto output = DeviceOutput::Capture();
  ASSERT_TRUE(output.ok()) << output.status().message();
  printf("hello %d\n", 7);  // through the C library's buffer, as the driver does
  const std::string direct = "direct\n";
  ASSERT_EQ(DrainText(**output), "hello 7\n");
  ASSERT_EQ(write(STDOUT_FILENO, direct.data(), direct.size()), ssize_t(direct.size()));
  EXPECT_EQ(DrainText(**output), direct);
  EXPECT_EQ(DrainText(**output), "");
}

TEST(DeviceOutput, SplitsLongTextIntoBoundedPiecesInOrder) {
  auto output = DeviceOutput::Capture();
  ASSERT_TRUE(output.ok());
  std::string expected;
  for (int round = 0; round < 3; ++round) {
    std::string text;
    while (text.size() < 5 * DeviceOutput::kPieceBytes / 2) text += "line " + std::to_string(text.size()) + "\n";
    ASSERT_EQ(write(STDOUT_FILENO, text.data(), text.size()), ssize_t(text.size()));
    std::vector<size_t> pieces;
    EXPECT_EQ(DrainText(**output, &pieces), text);
    EXPECT_GE(pieces.size(), 3u);
    for (const size_t size : pieces) EXPECT_LE(size, DeviceOutput::kPieceBytes);
  }
}

TEST(DeviceOutput, KeepsTheTwoStreamsApartAndTheLogOutOfBoth) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int saved = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  std::string errors;
  {
    auto output = DeviceOutput::Capture();
    ASSERT_TRUE(output.ok());
    fprintf(stderr, "assertion failed\n");
    printf("printed\n");
    LogError("for the log");
    EXPECT_EQ(DrainText(**output, nullptr, &errors), "printed\n");
  }
  EXPECT_EQ(errors, "assertion failed\n");
  LogError("after");
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(ends[1]);
  char text[256] = {};
  size_t size = 0;
  for (ssize_t count = 0; (count = read(ends[0], text + size, sizeof(text) - 1 - size)) > 0;) size += size_t(count);
  close(ends[0]);
  const std::string log = text;
  EXPECT_NE(log.find("for the log"), std::string::npos) << log;
  EXPECT_NE(log.find("after"), std::string::npos) << log;
  EXPECT_EQ(log.find("assertion"), std::string::npos) << log;
}

TEST(DeviceOutputDeathTest, LastWordsOfAnAbortGoToTheFormerStderr) {
  EXPECT_DEATH(
      {
        auto output = DeviceOutput::Capture();
        fprintf(stderr, "to the client\n");
        output.value()->Drain([](DeviceOutput::Stream, std::span<const std::byte>) {});
        fprintf(stderr, "why it aborts\n");
        abort();
      },
      "^why it aborts\n$");
}

TEST(DeviceOutput, PutsStdoutBack) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  fflush(stdout);
  const int saved = dup(STDOUT_FILENO);
  dup2(ends[1], STDOUT_FILENO);
  {
    auto output = DeviceOutput::Capture();
    ASSERT_TRUE(output.ok());
    printf("caught");
    EXPECT_EQ(DrainText(**output), "caught");
  }
  printf("after");
  fflush(stdout);
  dup2(saved, STDOUT_FILENO);
  char text[16] = {};
  EXPECT_EQ(read(ends[0], text, sizeof(text)), 5);
  EXPECT_STREQ(text, "after");
  close(ends[0]);
  close(ends[1]);
  close(saved);
}

}  // namespace
}  // namespace tessera
