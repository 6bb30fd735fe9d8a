#include "netaware/cli/top_table.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

namespace tessera {
namespace {

ServerReport::Use Use(uint64_t session, uint64_t mib, uint32_t percent) {
  ServerReport::Use use;
  use.session = session;
  use.used_bytes = mib << 20;
  use.load.time_us = 1;
  use.load.sm_percent = percent;
  return use;
}

ServerReport SomeReport() {
  ServerReport report;
  for (const auto& [session, age_s] : {std::pair{3U, 10U}, {1U, 7'300U}, {2U, 65U}}) {
    ServerReport::Session& each = report.session_list.emplace_back();
    each.session = session;
    each.pid = 100 + session;
    each.age_ms = age_s * 1'000;
    each.program = "p" + std::to_string(session);
  }
  report.uses = {Use(3, 5, 80), Use(1, 900, 20)};
  return report;
}

// The sessions in their order.
std::vector<int> Order(TopOrder order) {
  std::istringstream text(SessionTable(SomeReport(), order));
  std::vector<int> sessions;
  std::string line;
  std::getline(text, line);  // the heading
  while (std::getline(text, line)) sessions.push_back(std::stoi(line));
  return sessions;
}

TEST(TopTable, Sorts) {
  EXPECT_EQ(Order(TopOrder::kSession), (std::vector{1, 2, 3}));
  EXPECT_EQ(Order(TopOrder::kMemory), (std::vector{1, 3, 2}));
  EXPECT_EQ(Order(TopOrder::kLoad), (std::vector{3, 1, 2}));
  EXPECT_EQ(Order(TopOrder::kAge), (std::vector{1, 2, 3}));
}

TEST(TopTable, NamesAndKeysOfOrders) {
  EXPECT_EQ(TopOrderOf("memory"), TopOrder::kMemory);
  EXPECT_EQ(TopOrderOf('l'), TopOrder::kLoad);
  EXPECT_EQ(TopOrderOf("mem"), std::nullopt);
  EXPECT_EQ(TopOrderOf('x'), std::nullopt);
  EXPECT_EQ(TopOrderOf('\0'), std::nullopt);
}

TEST(TopTable, ItsNumbersFitSixtyColumns) {
  ServerReport report = SomeReport();
  report.session_list[0].session = report.uses[0].session = 1'000'000;
  report.session_list[0].pid = 4'194'303;
  report.session_list[0].age_ms = uint64_t{999} * 3'600'000;
  report.uses[0].used_bytes = uint64_t{191} << 30;
  report.uses[0].load.sm_percent = 100;
  const std::string text = SessionTable(report, TopOrder::kMemory);
  const size_t at = text.find("  p3, ");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_LE(at - text.find('\n'), 50U) << text;
}

}  // namespace
}  // namespace tessera
