// Loads in virtual time, and what they came to.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/simulate/report.h"
#include "scheduler/simulate/simulation.h"

namespace tessera {

// `lines` as those of a load's file behind its first.
inline std::vector<Load> Loads(const std::string& lines) {
  Result<std::vector<Load>> loads = ParseLoads("tessera-load 1\n" + lines);
  EXPECT_TRUE(loads.ok()) << loads.status().message();
  return loads.ok() ? std::move(loads).value() : std::vector<Load>();
}

inline bool AnyWithoutRequest(const std::vector<Load>& loads) {
  for (const Load& load : loads) {
    if (load.spec.request == 0) return true;
  }
  return false;
}

inline Timeline RunOf(SimulationOptions options, const std::vector<Load>& loads) {
  options.rules.request_zero = AnyWithoutRequest(loads);
  TimelineBuilder builder;
  const Status done = Simulate(options, loads, [&](const SchedulerEvent& event) { builder.Add(event); });
  EXPECT_TRUE(done.ok()) << done.message();
  return builder.Finish();
}

// What is measured once the work that was queued before tokens began has run.
inline constexpr int64_t kSettledNs = 2 * kSecondNs;

inline Report ReportOf(const SimulationOptions& options, const std::string& lines) {
  return MakeReport(RunOf(options, Loads(lines)), kSettledNs);
}

}  // namespace tessera
