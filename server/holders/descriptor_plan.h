// How a server's descriptors are divided among what it keeps for clients, so that none of it takes those of the rest. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

struct DescriptorPlan {
  static constexpr size_t kOfSession = 12;  // of one session; a few more than are
  static constexpr size_t kWaitingMax = 1024;

  size_t waiting = 0;  // starts that wait; as many are kept for connections that have said nothing yet
  size_t shares = 0;   // of objects that sessions share

  // `limit`: of the process (RLIMIT_NOFILE), as it will stay. What is kept for sessions is no more than a quarter of it.
  static DescriptorPlan Of(uint64_t limit, uint64_t sessions_max);
  static DescriptorPlan OfThisProcess(uint64_t sessions_max);
};

}  // namespace tessera
