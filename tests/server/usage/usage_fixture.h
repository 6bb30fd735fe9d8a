// A directory for usage records that goes with the test, and records to put there.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "server/usage/usage_line.h"

namespace tessera {

class UsageDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/usageXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override {
    std::filesystem::permissions(directory_, std::filesystem::perms::owner_all);
    std::filesystem::remove_all(directory_);
  }
  std::string database() const { return directory_ + "/usage.sqlite"; }

  std::string directory_;
};

inline UsageBatch::Record UsageRecord(std::string name, UsageSums sums, std::string owners = "*") {
  return {.name = std::move(name), .gpu = "GPU-1", .owners = std::move(owners), .sums = sums};
}

inline UsageQuery UsageOf(std::string name, int64_t since = 0, int64_t until = 1'000'000, uint32_t bucket_s = 0) {
  UsageQuery query;
  query.name = std::move(name);
  query.since = since;
  query.until = until;
  query.bucket_s = bucket_s;
  query.sees_all = true;
  return query;
}

}  // namespace tessera
