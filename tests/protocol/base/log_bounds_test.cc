#include "protocol/base/log_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "protocol/base/log.h"
#include "tests/protocol/base/caught_log.h"

namespace tessera {
namespace {

constexpr uint64_t kBoundSecondNs = 1'000'000'000;

std::vector<std::string> TextsOf(const std::vector<LineRepeats::Line>& lines) {
  std::vector<std::string> texts;
  for (const LineRepeats::Line& line : lines) texts.push_back(line.text);
  return texts;
}

TEST(LineRepeatsTest, ALineIsCountedForAWhileAndThenWrittenWithTheCount) {
  LineRepeats repeats;
  EXPECT_EQ(TextsOf(repeats.Take(0, "a", 1)), std::vector<std::string>{"a"});
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_TRUE(repeats.Take(0, "a", 2 + i).empty());
  EXPECT_EQ(TextsOf(repeats.Take(0, "a", LineRepeats::kPauseNs + 1)),
            std::vector<std::string>{"a (1000 times more since the last such line)"});
  EXPECT_EQ(TextsOf(repeats.Take(0, "a", 2 * LineRepeats::kPauseNs + 1)), std::vector<std::string>{"a"});
}

TEST(LineRepeatsTest, SeveralLinesByTurnsAreCountedToo) {
  LineRepeats repeats;
  size_t written = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    for (size_t line = 0; line < LineRepeats::kLinesMax; ++line) written += repeats.Take(0, std::to_string(line), i).size();
  }
  EXPECT_EQ(written, LineRepeats::kLinesMax);
}

TEST(LineRepeatsTest, NoCountIsLostWithALineThatIsForgotten) {
  LineRepeats repeats;
  repeats.Take(3, "a", 0);
  repeats.Take(3, "a", 0);
  for (size_t line = 1; line < LineRepeats::kLinesMax; ++line) repeats.Take(0, std::to_string(line), 0);
  const std::vector<LineRepeats::Line> lines = repeats.Take(0, "b", 0);
  EXPECT_EQ(TextsOf(lines), (std::vector<std::string>{"a (1 times more since the last such line)", "b"}));
  EXPECT_EQ(lines[0].level, 3);
}

TEST(OncePerSecondTest, SaysHowMuchWasLeftOut) {
  OncePerSecond once;
  uint64_t left_out = 99;
  EXPECT_TRUE(once.Take(5, &left_out));
  EXPECT_EQ(left_out, 0u);
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(once.Take(5 + kBoundSecondNs - 1, &left_out));
  EXPECT_TRUE(once.Take(5 + kBoundSecondNs, &left_out));
  EXPECT_EQ(left_out, 7u);
}

TEST(LogTest, AServiceTellsTheTimeWhereStderrIsNoTerminal) {
  CaughtLog log;
  SetLogName("service", LogTimes::kUnlessTerminal);
  LogWarning("one thing");
  const std::string text = log.Text();
  EXPECT_TRUE(std::regex_match(
      text,
      std::regex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z service\\[[0-9]+\\]: warning: one thing\n")))
      << text;
}

TEST(LogTest, AGuestDoesNot) {
  CaughtLog log;
  SetLogName("guest");
  LogWarning("another thing");
  EXPECT_EQ(log.Text().find("guest["), 0u);
}

TEST(LogTest, RepeatedLinesAndStrangersAreCounted) {
  CaughtLog log;
  for (int i = 0; i < 1000; ++i) LogWarning("a third thing");
  for (int i = 0; i < 1000; ++i) LogStranger("stranger {}", i);
  const std::string text = log.Text();
  // A slow machine may need another second or two for the thousand.
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 10) << text;
  EXPECT_NE(text.find("a third thing\n"), std::string::npos);
  EXPECT_NE(text.find("stranger 0\n"), std::string::npos);
}

TEST(LogTest, ALineThatFindsNoRoomIsLeftOutAndCounted) {
  CaughtLog log(O_NONBLOCK);
  constexpr size_t kSaid = 10'000;
  for (size_t i = 0; i < kSaid; ++i) LogWarning("number {}", i);
  std::string all;
  for (std::string text; !(text = log.Taken()).empty();) all += text;
  size_t written = 0;
  for (size_t at = 0; (at = all.find("number ", at)) != std::string::npos; ++at) ++written;
  EXPECT_LT(written, kSaid);
  LogWarning("the last thing");
  all += log.Taken();
  // Told before it, by itself or with it, and once.
  std::smatch found;
  ASSERT_TRUE(std::regex_search(all, found, std::regex("([0-9]+) lines are left out here")));
  EXPECT_GT(all.find("the last thing\n"), static_cast<size_t>(found.position()));
  EXPECT_NE(all.find("the last thing\n"), std::string::npos);
  // With what tests before have said.
  EXPECT_GE(std::stoul(found[1]), kSaid - written);
  EXPECT_LE(std::stoul(found[1]), kSaid - written + 100);
}

}  // namespace
}  // namespace tessera
