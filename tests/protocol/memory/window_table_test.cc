#include "protocol/memory/window_table.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(WindowTableTest, WindowsOfARowAreDisjointAndInUserSpace) {
  for (const WindowPair& row : kWindowTable) {
    EXPECT_LE(row.device.end(), row.host.base);
    EXPECT_LE(row.host.end(), uint64_t{1} << 47);
    EXPECT_EQ(row.device.base % (uint64_t{1} << 30), 0u);
    EXPECT_EQ(row.host.base % (uint64_t{1} << 30), 0u);
  }
}

TEST(WindowTableTest, SessionsShareNothing) {
  for (int row = 0; row < kWindowRows; ++row) {
    uint64_t device_end = kWindowTable[row].device.base;
    uint64_t host_end = kWindowTable[row].host.base;
    for (int session = 0; session < kSessionsPerWindow; ++session) {
      const WindowPair part = SessionWindows(row, session);
      EXPECT_EQ(part.device.base, device_end);
      EXPECT_EQ(part.host.base, host_end);
      EXPECT_EQ(part.device.base % (uint64_t{2} << 20), 0u);
      device_end = part.device.end();
      host_end = part.host.end();
    }
    EXPECT_EQ(device_end, kWindowTable[row].device.end());
    EXPECT_EQ(host_end, kWindowTable[row].host.end());
  }
}

}  // namespace
}  // namespace tessera
