// The findings of `tessera doctor` about a placer. A finding has a grade (good, note, problem), a subject, a description, and
// an advice unless it is good. The placer's text is made printable. Pure; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "generated/control/placement.pb.h"

namespace tessera {

// The placer's clock and this host's may differ by this much: tickets expire by the placer's clock.
inline constexpr int64_t kClocksApartMs = 5'000;

// {"grade", "subject", "text"} and, unless the grade is good, "advice".
nlohmann::json Finding(const char* grade, const char* subject, const std::string& text, const std::string& advice = "");

// Findings from the answer of the placer at `url`: its release compared with `own_release`, the caller's name and role, the
// difference of the clocks. The call began at `asked_ms` and ended at `heard_ms` by this host's clock.
nlohmann::json FindingsOf(const std::string& url, const control::v1::WhoamiAnswer& answer, int64_t asked_ms, int64_t heard_ms,
                          const std::string& own_release);
// The finding about the number of servers in the pool, and about those that are not offered.
nlohmann::json FindingOf(const control::v1::ServerList& servers);

}  // namespace tessera
