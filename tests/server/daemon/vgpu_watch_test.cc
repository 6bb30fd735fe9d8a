#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "server/daemon/vgpu_file.h"

namespace tessera {
namespace {

class VgpuWatchTest : public testing::Test {
 protected:
  VgpuWatchTest() {
    char pattern[] = "/tmp/tessera-vgpus-XXXXXX";
    directory_ = mkdtemp(pattern);
    path_ = directory_ + "/vgpus.toml";
  }
  ~VgpuWatchTest() override { std::filesystem::remove_all(directory_); }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }

  std::string directory_, path_;
};

TEST_F(VgpuWatchTest, TellsOfAnotherTextAlone) {
  Write("one");
  Result<WatchedVgpuFile> file = WatchedVgpuFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->text(), "one");
  EXPECT_FALSE(file->Look());
  std::ofstream(directory_ + "/another") << "two";
  EXPECT_FALSE(file->Look());
  Write("two");
  EXPECT_TRUE(file->Look());
  EXPECT_EQ(file->text(), "two");
  std::filesystem::remove(path_);
  std::ofstream(directory_ + "/another") << "three";
  EXPECT_FALSE(file->Look()) << "it is gone";
  EXPECT_EQ(file->text(), "two");
}

TEST_F(VgpuWatchTest, KeepsTheTextAndNotTheRoomForTheLargest) {
  const std::string text(10'000, '#');
  Write(text);
  Result<WatchedVgpuFile> file = WatchedVgpuFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->text(), text);
  EXPECT_LE(file->text().capacity(), 4 * text.size());
  Write(text + "\n");
  EXPECT_TRUE(file->Look());
  EXPECT_LE(file->text().capacity(), 4 * text.size());
}

TEST_F(VgpuWatchTest, TakesUpToAMiB) {
  Write(std::string(kVgpuFileBytesMax, '#'));
  Result<WatchedVgpuFile> file = WatchedVgpuFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->text().size(), kVgpuFileBytesMax);
  Write(std::string(kVgpuFileBytesMax + 1, '#'));
  EXPECT_FALSE(file->Look());
  EXPECT_EQ(WatchedVgpuFile::Open(path_).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(WatchedVgpuFile::Open(path_ + ".none").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tessera
