#include "netaware/job/job_options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

JobOptions Parsed(std::vector<std::string> words) {
  CLI::App app;
  JobOptions options;
  AddJobOptions(app, &options);
  std::reverse(words.begin(), words.end());
  app.parse(words);
  return options;
}

TEST(JobOptions, SharesAreAboveNothingAndNoMoreThanAll) {
  double share = 0, limit = 0;
  EXPECT_TRUE(ParseShare("0.5", &share, &limit));
  EXPECT_EQ(share, 0.5);
  EXPECT_EQ(limit, 1);
  EXPECT_TRUE(ParseShare("0.25:0.5", &share, &limit));
  EXPECT_EQ(limit, 0.5);
  for (const char* bad : {"", "0", "-0.5", "1.5", "half", "0.5:", ":0.5", "0.5:0.25", "0.5:2", "nan", "inf", "0.5 ", "50%"})
    EXPECT_FALSE(ParseShare(bad, &share, &limit)) << bad;
}

TEST(JobOptions, SizesHaveUnits) {
  uint64_t bytes = 0;
  for (const char* good : {"20G", "20GiB", "20 GiB", "21474836480B"}) {
    EXPECT_TRUE(ParseMemory(good, &bytes)) << good;
    EXPECT_EQ(bytes, uint64_t{20} << 30) << good;
  }
  for (const char* bad : {"", "20", "G", "0G", "-1G", "20GB", "20Q", "20GiBiB", "99999999999T"})
    EXPECT_FALSE(ParseMemory(bad, &bytes)) << bad;
}

TEST(JobOptions, WaitsHaveUnits) {
  int64_t wait_ms = -1;
  EXPECT_TRUE(ParseWait("0", &wait_ms));
  EXPECT_EQ(wait_ms, 0);
  EXPECT_TRUE(ParseWait("90s", &wait_ms));
  EXPECT_EQ(wait_ms, 90'000);
  EXPECT_TRUE(ParseWait("5m", &wait_ms));
  EXPECT_EQ(wait_ms, 300'000);
  EXPECT_TRUE(ParseWait("2h", &wait_ms));
  EXPECT_EQ(wait_ms, 7'200'000);
  for (const char* bad : {"", "5", "s", "-1s", "1d", "1.5h", "999999999999999999999s"})
    EXPECT_FALSE(ParseWait(bad, &wait_ms)) << bad;
}

TEST(JobOptions, TheWordsOfAnotherProgramSayTheSame) {
  const JobOptions asked = Parsed({"--placer", "unix:/p", "--gpus", "2", "--gpu-share", "0.3:0.7", "--gpu-mem", "3G",
                                   "--gpu-model", "NVIDIA H100,NVIDIA A100", "--same-server", "--wait", "250ms", "--processes",
                                   "7", "--isolation", "packed", "--priority", "best-effort"});
  const JobOptions same = Parsed(JobArguments(asked));
  EXPECT_EQ(same.placer, "unix:/p");
  EXPECT_EQ(same.gpus, 2U);
  EXPECT_EQ(same.share, 0.3);
  EXPECT_EQ(same.limit, 0.7);
  EXPECT_EQ(same.memory_bytes, uint64_t{3} << 30);
  EXPECT_EQ(same.models, (std::vector<std::string>{"NVIDIA H100", "NVIDIA A100"}));
  EXPECT_TRUE(same.same_server);
  EXPECT_EQ(same.wait_ms, 250);
  EXPECT_EQ(same.processes, 7U);
  EXPECT_EQ(same.isolation, "packed");
  EXPECT_EQ(same.priority, "best-effort");
  EXPECT_TRUE(same.asks());
  EXPECT_TRUE(JobArguments(Parsed({})).empty());
  EXPECT_FALSE(Parsed({"--placer", "unix:/p"}).asks());
}

TEST(JobOptions, WhatIsWrongNamesItsOptionAndItsForm) {
  const std::string long_name(257, 'x');
  for (const auto& [option, value] : {std::pair("--gpu-share", "2"),
                                      {"--gpu-mem", "20"},
                                      {"--wait", "soon"},
                                      {"--gpus", "0"},
                                      {"--isolation", "none"},
                                      {"--priority", "high"},
                                      {"--processes", "0"},
                                      {"--processes", "1025"},
                                      {"--gpu-model", "H\xff"},
                                      {"--gpu-model", "A\x1b[2J"},
                                      {"--gpu-model", long_name.c_str()}}) {
    try {
      Parsed({option, value});
      ADD_FAILURE() << option;
    } catch (const CLI::ParseError& error) {
      EXPECT_NE(std::string(error.what()).find(option), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tessera
