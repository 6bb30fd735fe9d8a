#include "client-stub/process/statistics.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "client-stub/process/call_info.h"
#include "protocol/base/log.h"

namespace tessera {

Statistics::Statistics(ProcessFile destination) : destination_(std::move(destination)), rows_(new Row[kRows]) {}

Statistics::Row& Statistics::Of(const CallInfo& info) {
  Row& row = rows_[std::min<size_t>(info.id, kRows - 1)];
  if (row.name.load(std::memory_order_relaxed) == nullptr) row.name.store(info.name, std::memory_order_relaxed);
  return row;
}

Statistics::Counts& Statistics::Counts::operator+=(const Counts& other) {
  calls += other.calls;
  round_trips += other.round_trips;
  bytes_out += other.bytes_out;
  bytes_in += other.bytes_in;
  waited_ns += other.waited_ns;
  return *this;
}

Statistics::Counts& Statistics::Counts::operator-=(const Counts& other) {
  calls -= other.calls;
  round_trips -= other.round_trips;
  bytes_out -= other.bytes_out;
  bytes_in -= other.bytes_in;
  waited_ns -= other.waited_ns;
  return *this;
}

Statistics::Snapshot Statistics::TakeSnapshot() const {
  Snapshot snapshot(kRows);
  for (size_t i = 0; i < kRows; ++i) {
    const Row& row = rows_[i];
    snapshot[i] = {row.name.load(std::memory_order_relaxed),        row.calls.load(std::memory_order_relaxed),
                   row.round_trips.load(std::memory_order_relaxed), row.bytes_out.load(std::memory_order_relaxed),
                   row.bytes_in.load(std::memory_order_relaxed),    row.waited_ns.load(std::memory_order_relaxed)};
  }
  return snapshot;
}

Statistics::Counts Statistics::Total(const Snapshot& snapshot) {
  Counts total{"all"};
  for (const Counts& counts : snapshot) total += counts;
  return total;
}

std::string Statistics::NumbersJson(const Counts& counts) {
  return fmt::format(R"("calls": {}, "round_trips": {}, "bytes_out": {}, "bytes_in": {}, "waited_ns": {})", counts.calls,
                     counts.round_trips, counts.bytes_out, counts.bytes_in, counts.waited_ns);
}

// The members of an object: the total, and every function that was called.
std::string Statistics::BodyJson(const Snapshot& snapshot) {
  std::string functions;
  for (const Counts& counts : snapshot) {
    if (counts.name == nullptr || (counts.calls == 0 && counts.bytes_out == 0)) continue;
    functions += fmt::format("{}\n    \"{}\": {{{}}}", functions.empty() ? "" : ",", counts.name, NumbersJson(counts));
  }
  return fmt::format("{},\n  \"functions\": {{{}\n  }}", NumbersJson(Total(snapshot)), functions);
}

void Statistics::BeginRegion() {
  MutexLock lock(mutex_);
  if (in_region_ || regions_.size() == kRegionsMax) return;
  in_region_ = true;
  region_start_ = TakeSnapshot();
}

void Statistics::EndRegion() {
  MutexLock lock(mutex_);
  if (!in_region_) return;
  in_region_ = false;
  Snapshot region = TakeSnapshot();
  for (size_t i = 0; i < kRows; ++i) region[i] -= region_start_[i];
  regions_.push_back(BodyJson(region));
}

std::string Statistics::ToJson() const {
  std::string regions;
  {
    MutexLock lock(mutex_);
    for (const std::string& region : regions_) regions += fmt::format("{}\n  {{{}}}", regions.empty() ? "" : ",", region);
  }
  return fmt::format("{{{},\n  \"regions\": [{}]\n}}\n", BodyJson(TakeSnapshot()), regions);
}

std::string Statistics::ToTable() const {
  Snapshot all = TakeSnapshot();
  const Counts total = Total(all);
  std::erase_if(all, [](const Counts& counts) { return counts.name == nullptr; });
  std::stable_sort(all.begin(), all.end(), [](const Counts& a, const Counts& b) { return a.calls > b.calls; });
  all.insert(all.begin(), total);
  std::string text = fmt::format("{:<56} {:>12} {:>12} {:>14} {:>14} {:>12}\n", "function", "calls", "round trips", "bytes out",
                                 "bytes in", "waited ms");
  for (const Counts& counts : all) {
    text += fmt::format("{:<56} {:>12} {:>12} {:>14} {:>14} {:>12.3f}\n", counts.name, counts.calls, counts.round_trips,
                        counts.bytes_out, counts.bytes_in, static_cast<double>(counts.waited_ns) * 1e-6);
  }
  return text;
}

void Statistics::Write() const {
  if (destination_.path() == "1") {
    const std::string text = ToTable();
    std::fwrite(text.data(), 1, text.size(), stderr);
    return;
  }
  if (!destination_.Write(ToJson())) {
    LogWarning("the statistics could not be written to {}: {}; name a file that this user may write (TESSERA_STATS)",
               destination_.path(), std::strerror(errno));
  }
}

}  // namespace tessera
