#include "protocol/link/impaired/impairment.h"

#include <charconv>
#include <span>
#include <string>

namespace tessera {
namespace {

constexpr double kTimeNsMax = 10e9;
constexpr double kRateMin = 1000;  // bytes per second
constexpr double kRateMax = 1e12;

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kTimes[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
constexpr Unit kRates[] = {{"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}};

// A number and one of `units`, from `least` to `most`; false otherwise.
bool Read(std::string_view word, std::span<const Unit> units, double least, double most, uint64_t* value) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return false;
  const std::string_view unit = word.substr(static_cast<size_t>(end - word.data()));
  for (const Unit& known : units) {
    const double scaled = number * known.factor;
    if (unit != known.name) continue;
    if (!(scaled >= least && scaled <= most)) return false;
    *value = static_cast<uint64_t>(scaled + 0.5);
    return true;
  }
  return false;
}

bool ReadPart(std::string_view part, Impairment* impairment) {
  const size_t equals = part.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = part.substr(0, equals);
  const std::string_view word = part.substr(equals + 1);
  if (name == "delay") return Read(word, kTimes, 0, kTimeNsMax, &impairment->delay_ns);
  if (name == "jitter") return Read(word, kTimes, 0, kTimeNsMax, &impairment->jitter_ns);
  if (name == "stall") return Read(word, kTimes, 0, kTimeNsMax, &impairment->stall_ns);
  if (name == "rate") return Read(word, kRates, kRateMin, kRateMax, &impairment->bytes_per_second);
  return false;
}

}  // namespace

Result<Impairment> Impairment::Parse(std::string_view text) {
  Impairment impairment;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    if (!ReadPart(part, &impairment)) {
      return Status(StatusCode::kInvalidArgument,
                    "'" + std::string(part) +
                        "' says nothing about a link: write delay=, jitter= or stall= with us, ms or s (at most 10s), rate= with "
                        "kbit, mbit or gbit (at least 8kbit), separated by commas, as in delay=0.05ms,rate=10gbit");
    }
    if (comma == std::string_view::npos) return impairment;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace tessera
