// What `tessera doctor` says of a placer, as findings: a grade (good, note, problem), a subject, what is the case, and what to do
// where that is not good. Text of the placer is made printable. Pure; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "generated/control/placement.pb.h"

namespace tessera {

// The placer's clock and this host's may differ by so much: tickets end by the placer's.
inline constexpr int64_t kClocksApartMs = 5'000;

// {"grade", "subject", "text"} and, not with good, "advice".
nlohmann::json Finding(const char* grade, const char* subject, const std::string& text, const std::string& advice = "");

// What a placer at `url` has answered, by this host's clock between `asked_ms` and `heard_ms`: its release beside `own_release`,
// the caller's name and role, the clocks.
nlohmann::json FindingsOf(const std::string& url, const control::v1::WhoamiAnswer& answer, int64_t asked_ms, int64_t heard_ms,
                          const std::string& own_release);
// How many servers the pool has, and which are not offered.
nlohmann::json FindingOf(const control::v1::ServerList& servers);

}  // namespace tessera
