#include "netaware/admin/usage_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "netaware/admin/vgpu_text.h"
#include "netaware/vgpu/usage_time.h"
#include "protocol/base/bytes_text.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr int64_t kDayS = 86'400;

double ShareOf(const control::v1::UsageRow& row) {
  return row.recorded_s() == 0 ? 0 : row.busy_s() / static_cast<double>(row.recorded_s());
}

nlohmann::json RowJson(const control::v1::UsageRow& row) {
  nlohmann::json kinds = nlohmann::json::object();
  for (const auto& [kind, bytes] : row.memory_peak_by_kind()) kinds[kind] = bytes;
  return {{"name", row.name()},
          {"gpu_uuid", row.gpu_uuid()},
          {"begin", row.begin()},
          {"recorded_s", row.recorded_s()},
          {"busy_s", row.busy_s()},
          {"wait_s", row.wait_s()},
          {"active_s", row.active_s()},
          {"share_mean", ShareOf(row)},
          {"memory_peak_bytes", row.memory_peak_bytes()},
          {"memory_peak_by_kind", kinds},
          {"launches", row.launches()}};
}

}  // namespace

control::v1::UsageRequest UsageRequestOf(const VgpuOptions& options, int64_t now) {
  int64_t since = now - kDayS, until = now + 1;
  if (!options.since.empty()) (void)ParseUsageTime(options.since, now, &since);
  if (!options.until.empty()) (void)ParseUsageTime(options.until, now, &until);
  control::v1::UsageRequest request;
  request.set_name(options.name);
  request.set_since(since);
  request.set_until(until);
  request.set_step_s(options.by == "hour" ? 3'600 : options.by == "day" ? kDayS : 0);
  return request;
}

std::string UsageText(const VgpuOptions& options, const control::v1::UsageRequest& request,
                      const control::v1::UsageReport& report) {
  if (options.output == "json") {
    nlohmann::json rows = nlohmann::json::array();
    for (const control::v1::UsageRow& row : report.rows()) rows.push_back(RowJson(row));
    return Text({{"since", request.since()}, {"until", request.until()}, {"rows", rows}}, 2);
  }
  if (report.rows().empty()) {
    return fmt::format("there are no usage records for you of {} to {}\n", UsageTimeText(request.since()),
                       UsageTimeText(request.until()));
  }
  std::vector<std::vector<std::string>> table = {
      {"NAME", "GPU", "FROM", "BUSY S", "WAIT S", "ACTIVE S", "SHARE", "MEMORY", "LAUNCHES"}};
  for (const control::v1::UsageRow& row : report.rows()) {
    table.push_back({Printable(row.name()), Printable(row.gpu_uuid()), UsageTimeText(row.begin()),
                     fmt::format("{:.1f}", row.busy_s()), fmt::format("{:.1f}", row.wait_s()),
                     fmt::format("{:.1f}", row.active_s()), fmt::format("{:.3f}", ShareOf(row)),
                     BytesText(row.memory_peak_bytes()), std::to_string(row.launches())});
  }
  return TableText(table);
}

}  // namespace tessera
