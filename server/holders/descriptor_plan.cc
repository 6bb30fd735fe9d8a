#include "server/holders/descriptor_plan.h"

#include <sys/resource.h>

#include <algorithm>

namespace tessera {
namespace {

// The part of starts that wait, as that of strangers (protocol/relay/strangers.h).
constexpr uint64_t kPart = 8;
// Of the server itself.
constexpr uint64_t kOwn = 64;

}  // namespace

DescriptorPlan DescriptorPlan::Of(uint64_t limit, uint64_t sessions_max) {
  DescriptorPlan plan;
  plan.waiting = std::clamp<uint64_t>(limit / kPart, 1, kWaitingMax);
  const uint64_t sessions = std::min(sessions_max * kOfSession, limit / 4);
  plan.shares = limit - std::min(limit, 2 * plan.waiting + sessions + std::min(kOwn, limit / kPart));
  return plan;
}

DescriptorPlan DescriptorPlan::OfThisProcess(uint64_t sessions_max) {
  rlimit limit{};
  return Of(getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024, sessions_max);
}

}  // namespace tessera
