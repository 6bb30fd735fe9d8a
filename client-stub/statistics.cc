#include "client-stub/statistics.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "client-stub/call.h"
#include "protocol/base/log.h"

namespace tessera {

Statistics::Statistics(std::string destination) : destination_(std::move(destination)), rows_(new Row[kRows]) {}

Statistics::Row& Statistics::Of(const CallInfo& info) {
  Row& row = rows_[std::min<size_t>(info.id, kRows - 1)];
  if (row.name.load(std::memory_order_relaxed) == nullptr) row.name.store(info.name, std::memory_order_relaxed);
  return row;
}

namespace {

struct Counts {
  const char* name;
  uint64_t calls, round_trips, bytes_out, bytes_in;
};

std::string Json(const Counts& counts) {
  return fmt::format(R"("calls": {}, "round_trips": {}, "bytes_out": {}, "bytes_in": {})", counts.calls,
                     counts.round_trips, counts.bytes_out, counts.bytes_in);
}

}  // namespace

std::string Statistics::ToJson() const {
  Counts total{"all", 0, 0, 0, 0};
  std::string functions;
  for (size_t i = 0; i < kRows; ++i) {
    const Row& row = rows_[i];
    if (row.name.load(std::memory_order_relaxed) == nullptr) continue;
    const Counts counts{row.name.load(), row.calls.load(), row.round_trips.load(), row.bytes_out.load(),
                        row.bytes_in.load()};
    functions += fmt::format("{}\n    \"{}\": {{{}}}", functions.empty() ? "" : ",", counts.name, Json(counts));
    total.calls += counts.calls;
    total.round_trips += counts.round_trips;
    total.bytes_out += counts.bytes_out;
    total.bytes_in += counts.bytes_in;
  }
  return fmt::format("{{{},\n  \"functions\": {{{}\n  }}\n}}\n", Json(total), functions);
}

std::string Statistics::ToTable() const {
  std::vector<Counts> all;
  Counts total{"all", 0, 0, 0, 0};
  for (size_t i = 0; i < kRows; ++i) {
    const Row& row = rows_[i];
    if (row.name.load(std::memory_order_relaxed) == nullptr) continue;
    all.push_back(
        {row.name.load(), row.calls.load(), row.round_trips.load(), row.bytes_out.load(), row.bytes_in.load()});
    total.calls += all.back().calls;
    total.round_trips += all.back().round_trips;
    total.bytes_out += all.back().bytes_out;
    total.bytes_in += all.back().bytes_in;
  }
  std::stable_sort(all.begin(), all.end(), [](const Counts& a, const Counts& b) { return a.calls > b.calls; });
  all.insert(all.begin(), total);
  std::string text =
      fmt::format("{:<56} {:>12} {:>12} {:>14} {:>14}\n", "function", "calls", "round trips", "bytes out", "bytes in");
  for (const Counts& counts : all) {
    text += fmt::format("{:<56} {:>12} {:>12} {:>14} {:>14}\n", counts.name, counts.calls, counts.round_trips,
                        counts.bytes_out, counts.bytes_in);
  }
  return text;
}

void Statistics::Write() const {
  if (destination_ == "1") {
    const std::string text = ToTable();
    std::fwrite(text.data(), 1, text.size(), stderr);
    return;
  }
  const std::string text = ToJson();
  std::FILE* file = std::fopen(destination_.c_str(), "we");
  if (file == nullptr || std::fwrite(text.data(), 1, text.size(), file) != text.size()) {
    LogWarning("the statistics could not be written to {} (TESSERA_STATS)", destination_);
  }
  if (file != nullptr) std::fclose(file);
}

}  // namespace tessera
