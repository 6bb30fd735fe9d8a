#include "scheduler/policies/policies.h"

#include <fmt/core.h>

#include <string>

#include "protocol/base/printable.h"

namespace tessera {

// One line for each policy: its name, and the function that makes it, in the file of the same name.
#define TESSERA_POLICIES(line) \
  line("equal", MakeEqualPolicy) line("fair", MakeFairPolicy) line("fixed", MakeFixedPolicy) line("priority", MakePriorityPolicy)

#define DECLARE(name, make) std::unique_ptr<Policy> make();
TESSERA_POLICIES(DECLARE)
#undef DECLARE

namespace {

constexpr struct {
  std::string_view name;
  std::unique_ptr<Policy> (*make)();
} kPolicies[] = {
#define ENTRY(name, make) {name, make},
    TESSERA_POLICIES(ENTRY)
#undef ENTRY
};

}  // namespace

Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name) {
  std::string names;
  for (const auto& policy : kPolicies) {
    if (policy.name == name) return policy.make();
    names += (names.empty() ? "" : ", ") + std::string(policy.name);
  }
  return Status(StatusCode::kNotFound, fmt::format("policy '{}' is unknown: there are {}", Printable(name), names));
}

std::vector<Priority> PrioritiesOf(std::string_view policy) {
  if (policy == "fixed") return {Priority::kNormal};
  // These let a protected one in when it arrives.
  if (policy != "priority") return {Priority::kProtected, Priority::kNormal};
  return {Priority::kProtected, Priority::kNormal, Priority::kBestEffort};
}

std::vector<std::string_view> PolicyNames() {
  std::vector<std::string_view> names;
  for (const auto& policy : kPolicies) names.push_back(policy.name);
  return names;
}

}  // namespace tessera
