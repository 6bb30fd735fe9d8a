#include "server/worker/device_output.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace tessera {
namespace {

std::string DrainText(DeviceOutput& output, std::vector<size_t>* pieces = nullptr) {
  std::string text;
  output.Drain([&](std::span<const std::byte> piece) {
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    if (pieces != nullptr) pieces->push_back(piece.size());
  });
  return text;
}

TEST(DeviceOutput, HandsOverWhatWasPrintedOnce) {
  auto output = DeviceOutput::CaptureStdout();
  ASSERT_TRUE(output.ok()) << output.status().message();
  printf("hello %d\n", 7);  // through the C library's buffer, as the driver does
  const std::string direct = "direct\n";
  ASSERT_EQ(DrainText(**output), "hello 7\n");
  ASSERT_EQ(write(STDOUT_FILENO, direct.data(), direct.size()), ssize_t(direct.size()));
  EXPECT_EQ(DrainText(**output), direct);
  EXPECT_EQ(DrainText(**output), "");
}

TEST(DeviceOutput, SplitsLongTextIntoBoundedPiecesInOrder) {
  auto output = DeviceOutput::CaptureStdout();
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

TEST(DeviceOutput, PutsStdoutBack) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  fflush(stdout);
  const int saved = dup(STDOUT_FILENO);
  dup2(ends[1], STDOUT_FILENO);
  {
    auto output = DeviceOutput::CaptureStdout();
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
