#include "protocol/base/small_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tessera {
namespace {

class SmallFileTest : public testing::Test {
 protected:
  SmallFileTest() {
    char name[] = "/tmp/small_file_test.XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~SmallFileTest() override { std::filesystem::remove_all(directory_); }
  std::string Write(const std::string& text) const {
    const std::string path = directory_ + "/file";
    std::ofstream(path) << text;
    return path;
  }
  static StatusCode CodeOf(const std::string& path) { return ReadSmallFile(path, 10).status().code(); }

  std::string directory_;
};

TEST_F(SmallFileTest, IsReadWhole) {
  const Result<std::string> text = ReadSmallFile(Write("0123456789"), 10);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(text.value(), "0123456789");
  EXPECT_EQ(ReadSmallFile(Write(""), 10).value(), "");
}

TEST_F(SmallFileTest, WhatCannotBeItIsAnError) {
  EXPECT_EQ(CodeOf(Write("0123456789a")), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(directory_), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(directory_ + "/none"), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(Write("") + "/below"), StatusCode::kNotFound);
}

TEST_F(SmallFileTest, APipeThatNobodyWritesIsNotWaitedFor) {
  const std::string path = directory_ + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(CodeOf(path), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tessera
