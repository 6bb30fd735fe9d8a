#include "netaware/vgpu/usage_time.h"

#include <time.h>

#include <array>
#include <charconv>
#include <system_error>

namespace tessera {
namespace {

// Parses a number of `digits` digits; false: the text has another form.
bool TakeDigits(std::string_view* text, size_t digits, int* number) {
  if (text->size() < digits) return false;
  const auto [end, error] = std::from_chars(text->data(), text->data() + digits, *number);
  if (error != std::errc() || end != text->data() + digits || (*text)[0] == '-') return false;
  text->remove_prefix(digits);
  return true;
}

bool Take(std::string_view* text, char c) {
  if (text->empty() || text->front() != c) return false;
  text->remove_prefix(1);
  return true;
}

bool ParseAgo(std::string_view text, int64_t now, int64_t* seconds) {
  if (text.size() < 2) return false;
  constexpr std::array<std::pair<char, int64_t>, 4> kUnits = {{{'s', 1}, {'m', 60}, {'h', 3'600}, {'d', 86'400}}};
  uint32_t count = 0;
  const char* const last = text.data() + text.size() - 1;
  const auto [end, error] = std::from_chars(text.data(), last, count);
  if (error != std::errc() || end != last) return false;
  for (const auto& [unit, length] : kUnits) {
    if (*last != unit) continue;
    *seconds = now - static_cast<int64_t>(count) * length;
    return *seconds >= 0;
  }
  return false;
}

}  // namespace

bool ParseUsageTime(std::string_view text, int64_t now, int64_t* seconds) {
  if (ParseAgo(text, now, seconds)) return true;
  struct tm parts {};
  if (!TakeDigits(&text, 4, &parts.tm_year) || !Take(&text, '-') || !TakeDigits(&text, 2, &parts.tm_mon) || !Take(&text, '-') ||
      !TakeDigits(&text, 2, &parts.tm_mday)) {
    return false;
  }
  if (Take(&text, 'T')) {
    if (!TakeDigits(&text, 2, &parts.tm_hour) || !Take(&text, ':') || !TakeDigits(&text, 2, &parts.tm_min)) return false;
    if (Take(&text, ':') && !TakeDigits(&text, 2, &parts.tm_sec)) return false;
    Take(&text, 'Z');
  }
  if (!text.empty()) return false;
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  const struct tm said = parts;
  *seconds = timegm(&parts);
  // timegm() turns a 31st of February into a day of March: such a date is refused.
  return *seconds >= 0 && parts.tm_mon == said.tm_mon && parts.tm_mday == said.tm_mday && parts.tm_hour == said.tm_hour &&
         parts.tm_min == said.tm_min && parts.tm_sec == said.tm_sec;
}

std::string UsageTimeText(int64_t seconds) {
  const time_t time = seconds;
  struct tm parts {};
  char text[32];
  if (gmtime_r(&time, &parts) == nullptr || strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
    return std::to_string(seconds);
  return text;
}

}  // namespace tessera
