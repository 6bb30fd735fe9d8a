// Times as users of `tessera vgpu usage` write them. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// The accepted forms of a time, for sentences and help.
inline constexpr const char* kUsageTimeForms = "2026-11-26, 2026-11-26T12:30, 2026-11-26T12:30:05 (UTC), or 30m, 12h, 7d ago";

// Seconds since 1970. False: the text has none of these forms, or the time is before 1970.
bool ParseUsageTime(std::string_view text, int64_t now, int64_t* seconds);
// "2026-11-26T12:30:05Z"; the number itself for a time outside the calendar.
std::string UsageTimeText(int64_t seconds);

}  // namespace tessera
