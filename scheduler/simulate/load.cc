#include "scheduler/simulate/load.h"

#include <fmt/core.h>

#include "protocol/base/printable.h"
#include "scheduler/admission.h"
#include "scheduler/simulate/line_words.h"

namespace tessera {
namespace {

constexpr std::string_view kFirstLine = "tessera-load 1";
constexpr std::string_view kAnyVersion = "tessera-load ";
constexpr int64_t kLoadTimeNsMax = 1000 * kSecondNs;
constexpr uint32_t kLoadSessionsMax = 64;

bool ParseTime(std::string_view text, int64_t least_ns, int64_t* time_ns) {
  constexpr std::pair<std::string_view, int64_t> kUnits[] = {{"ns", 1}, {"us", 1000}, {"ms", kMillisecondNs}, {"s", kSecondNs}};
  for (const auto& [unit, unit_ns] : kUnits) {
    if (!text.ends_with(unit)) continue;
    LineWords words(text.substr(0, text.size() - unit.size()));
    const double value = words.Number<double>();
    if (!words.Done() || !(value >= 0) || value * static_cast<double>(unit_ns) > static_cast<double>(kLoadTimeNsMax)) continue;
    *time_ns = static_cast<int64_t>(value * static_cast<double>(unit_ns));
    return *time_ns >= least_ns;
  }
  return false;
}

template <typename T>
bool ParseNumber(std::string_view text, T* value) {
  LineWords words(text);
  *value = words.Number<T>();
  return words.Done();
}

bool SetField(std::string_view key, std::string_view value, Load* load) {
  if (key == "request") return ParseNumber(value, &load->spec.request);
  if (key == "limit") return ParseNumber(value, &load->spec.limit);
  if (key == "priority") return ParsePriority(value, &load->spec.priority);
  if (key == "sessions") return ParseNumber(value, &load->sessions) && load->sessions >= 1 && load->sessions <= kLoadSessionsMax;
  if (key == "begin") return ParseTime(value, 0, &load->begin_ns);
  if (key == "end") return ParseTime(value, 0, &load->end_ns);
  if (key == "kernel") return ParseTime(value, 1000, &load->kernel_ns);
  if (key == "burst") return ParseTime(value, 0, &load->burst_ns);
  if (key == "rest") return ParseTime(value, 0, &load->rest_ns);
  if (key == "chance") {
    load->chance = value == "1";
    return value == "0" || value == "1";
  }
  return false;
}

Status AtLine(size_t number, const std::string& what) {
  return Status(StatusCode::kInvalidArgument, fmt::format("line {}: {}", number, what));
}

Status ParseLoad(std::string_view line, size_t number, Load* load) {
  LineWords words(line);
  load->spec.name = words.Word();
  while (!words.AtEnd()) {
    const std::string_view word = words.Word();
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos || !SetField(word.substr(0, equals), word.substr(equals + 1), load)) {
      return AtLine(number, fmt::format("'{}' is none of {}", Printable(word), kLoadForm));
    }
  }
  if (const Status fits = CheckVgpuSpec(load->spec); !fits.ok()) return AtLine(number, fits.message());
  if (load->end_ns <= load->begin_ns) return AtLine(number, "its end is not behind its beginning");
  return Status::Ok();
}

}  // namespace

Result<std::vector<Load>> ParseLoads(std::string_view text) {
  std::vector<Load> loads;
  std::string_view line;
  for (size_t number = 1; !text.empty(); ++number) {
    if (!TakeLine(&text, &line)) return AtLine(number, "the file was cut off: the last line has no end");
    if (number == 1) {
      if (line == kFirstLine) continue;
      if (line.starts_with(kAnyVersion)) {
        return Status(StatusCode::kVersionMismatch,
                      fmt::format("line 1: '{}' is of another version than this program's '{}'", Printable(line), kFirstLine));
      }
      return AtLine(1, fmt::format("'{}' is not '{}', with which a load begins", Printable(line), kFirstLine));
    }
    if (line.empty() || line.front() == '#') continue;
    RETURN_IF_ERROR(ParseLoad(line, number, &loads.emplace_back()));
  }
  if (loads.empty()) return Status(StatusCode::kInvalidArgument, "it has no line for a vGPU");
  return loads;
}

}  // namespace tessera
