#include "netaware/cli/top_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "netaware/cli/server_description.h"

namespace tessera {
namespace {

using Use = ServerReport::Use;

constexpr std::array<std::pair<std::string_view, TopOrder>, 4> kOrders = {
    {{"session", TopOrder::kSession}, {"memory", TopOrder::kMemory}, {"load", TopOrder::kLoad}, {"age", TopOrder::kAge}}};

struct Row {
  const ServerReport::Session* session;
  const Use* use;  // null: the session uses no device

  bool knows_memory() const { return use != nullptr && use->used_bytes != Use::kUnknown; }
  bool knows_load() const { return use != nullptr && use->load.time_us != 0; }
  // The sort key of a row; the largest comes first.
  uint64_t Weight(TopOrder order) const {
    switch (order) {
      case TopOrder::kMemory: return knows_memory() ? use->used_bytes : 0;
      case TopOrder::kLoad: return knows_load() ? use->load.sm_percent : 0;
      case TopOrder::kAge: return session->age_ms;
      default: return UINT64_MAX - session->session;
    }
  }
};

std::string Age(uint64_t ms) {
  const uint64_t s = ms / 1000;
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::vector<Row> RowsOf(const ServerReport& report, TopOrder order) {
  std::vector<Row> rows;
  for (const ServerReport::Session& session : report.session_list) {
    const size_t before = rows.size();
    for (const Use& use : report.uses) {
      if (use.session == session.session) rows.push_back({&session, &use});
    }
    if (rows.size() == before) rows.push_back({&session, nullptr});
  }
  std::ranges::stable_sort(rows, {}, [](const Row& row) { return row.session->session; });
  std::ranges::stable_sort(rows, std::ranges::greater{}, [&](const Row& row) { return row.Weight(order); });
  return rows;
}

}  // namespace

std::optional<TopOrder> TopOrderOf(std::string_view name) {
  const auto found = std::ranges::find(kOrders, name, &std::pair<std::string_view, TopOrder>::first);
  return found == kOrders.end() ? std::nullopt : std::optional(found->second);
}

std::optional<TopOrder> TopOrderOf(char key) {
  for (const auto& [name, order] : kOrders) {
    if (name.front() == key) return order;
  }
  return std::nullopt;
}

std::string SessionTable(const ServerReport& report, TopOrder order) {
  std::string text = fmt::format("{:>7} {:>7} {:>8} {:>3} {:>10} {:>5}  {}\n", "SESSION", "PID", "AGE", "GPU", "MEMORY", "LOAD",
                                 "PROGRAM, USER@HOST (NAME)");
  for (const Row& row : RowsOf(report, order)) {
    const ServerReport::Session& session = *row.session;
    text += fmt::format("{:>7} {:>7} {:>8} {:>3} {:>10} {:>5}  {}, {}\n", session.session, session.pid, Age(session.age_ms),
                        row.use != nullptr ? std::to_string(row.use->device) : "-",
                        row.knows_memory() ? fmt::format("{} MiB", row.use->used_bytes >> 20) : "-",
                        row.knows_load() ? fmt::format("{} %", row.use->load.sm_percent) : "-", session.program,
                        DescribeHolder(session));
  }
  return text;
}

}  // namespace tessera
