// The policies there are, by name.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"
#include "scheduler/policy.h"

namespace tessera {

inline constexpr std::string_view kDefaultPolicy = "fair";

// A new policy, for one GPU. kNotFound: there is none of that name; the sentence says which there are.
Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name);

// "equal", "fair", "fixed", "priority".
std::vector<std::string_view> PolicyNames();

// The priorities that this policy tells apart. It treats each of the others as kNormal.
std::vector<Priority> PrioritiesOf(std::string_view policy);

}  // namespace tessera
