#include "protocol/base/host_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tessera {
namespace {

TEST(HostMemory, SomeOfThisMachinesIsFree) {
  EXPECT_GT(HostMemoryFree(), uint64_t{1} << 20);
  EXPECT_GE(HostMemoryTotal(), HostMemoryFree());
  EXPECT_GE(ControlGroupMemoryLimit(), HostMemoryTotal());
}

// A machine with the files of control groups.
class ControlGroups : public ::testing::Test {
 protected:
  ControlGroups() {
    char pattern[] = "/tmp/tessera-groups-XXXXXX";
    root_ = mkdtemp(pattern);
  }
  ~ControlGroups() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text << "\n";
  }
  uint64_t Limit() const { return ControlGroupMemoryLimit(root_); }

  std::string root_;
};

TEST_F(ControlGroups, WithoutThemThereIsNone) {
  EXPECT_EQ(Limit(), UINT64_MAX);
  Write("proc/self/cgroup", "0::/");
  Write("sys/fs/cgroup/memory.max", "max");
  EXPECT_EQ(Limit(), UINT64_MAX);
}

TEST_F(ControlGroups, AContainersOwnIsAtTheTop) {
  Write("proc/self/cgroup", "0::/../../elsewhere");
  Write("sys/fs/cgroup/memory.max", "1503238553");
  EXPECT_EQ(Limit(), 1503238553u);
}

TEST_F(ControlGroups, TheLeastOfThoseAroundItCounts) {
  Write("proc/self/cgroup", "0::/system.slice/tesserad.service");
  Write("sys/fs/cgroup/system.slice/tesserad.service/memory.max", "max");
  EXPECT_EQ(Limit(), UINT64_MAX);
  Write("sys/fs/cgroup/system.slice/memory.max", "4096");
  EXPECT_EQ(Limit(), 4096u);
  Write("sys/fs/cgroup/system.slice/tesserad.service/memory.max", "1024");
  EXPECT_EQ(Limit(), 1024u);
}

TEST_F(ControlGroups, OfTheFirstVersion) {
  Write("proc/self/cgroup", "10:cpu,cpuacct:/a\n9:memory:/docker/abc\n1:name=systemd:/b");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  Write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "2048");
  EXPECT_EQ(Limit(), 2048u);
}

}  // namespace
}  // namespace tessera
