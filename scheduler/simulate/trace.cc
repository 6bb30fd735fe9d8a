#include "scheduler/simulate/trace.h"

#include <fmt/core.h>

#include <algorithm>

#include "protocol/base/printable.h"
#include "scheduler/simulate/line_words.h"

namespace tessera {
namespace {

constexpr std::string_view kFirstLine = "tessera-trace 1";
constexpr std::string_view kAnyVersion = "tessera-trace ";
// What a number of a vGPU or a session may be: far more than any server has at once.
constexpr uint32_t kIdMax = 1 << 20;
// 146 years, so that sums of two times are times.
constexpr int64_t kTimeNsMax = int64_t{1} << 62;

constexpr std::pair<TraceKind, std::string_view> kKinds[] = {
    {TraceKind::kVgpu, "vgpu"},         {TraceKind::kSpec, "spec"},           {TraceKind::kGone, "gone"},
    {TraceKind::kCame, "came"},         {TraceKind::kLeft, "left"},           {TraceKind::kWants, "wants"},
    {TraceKind::kBusy, "busy"},         {TraceKind::kQueued, "queued"},       {TraceKind::kWorked, "worked"},
    {TraceKind::kTogether, "together"}, {TraceKind::kElsewhere, "elsewhere"}, {TraceKind::kAppoint, "appoint"},
    {TraceKind::kGrant, "grant"},       {TraceKind::kDecide, "decide"},       {TraceKind::kGate, "gate"},
};

std::string_view NameOf(TraceKind kind) {
  return std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& each) { return each.first == kind; })->second;
}

// A flag, a time or a number of a session.
bool ParseValue(TraceKind kind, LineWords& words, int64_t* value) {
  *value = words.Number<int64_t>();
  const bool is_time = kind == TraceKind::kQueued || kind == TraceKind::kAppoint || kind == TraceKind::kGrant;
  const int64_t most = is_time ? kTimeNsMax : kind == TraceKind::kCame ? kIdMax : 1;
  return *value >= 0 && *value <= most;
}

bool ParseSpec(LineWords& words, VgpuSpec* spec) {
  spec->request = words.Number<double>();
  spec->limit = words.Number<double>();
  if (!ParsePriority(words.Word(), &spec->priority)) return false;
  spec->name = words.Word();
  return true;
}

bool ParseGate(LineWords& words, GateState* gate) {
  const std::string_view mode = words.Word();
  const auto is_mode = [&](GpuMode each) { return GpuModeName(each) == mode; };
  const GpuMode modes[] = {GpuMode::kFree, GpuMode::kArmed, GpuMode::kMetered};
  const auto found = std::find_if(std::begin(modes), std::end(modes), is_mode);
  if (found == std::end(modes)) return false;
  gate->mode = *found;
  gate->open_until_ns = words.Number<int64_t>();
  const auto next = words.Number<uint32_t>();
  gate->next = next == 1;
  return gate->open_until_ns >= 0 && next <= 1;
}

bool ParseEvent(std::string_view line, SchedulerEvent* event) {
  LineWords words(line);
  event->at_ns = words.Number<int64_t>();
  const std::string_view name = words.Word();
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& each) { return each.second == name; });
  if (event->at_ns < 0 || event->at_ns > kTimeNsMax || kind == std::end(kKinds)) return false;
  event->kind = kind->first;
  if (event->kind == TraceKind::kDecide) return words.Done();
  event->id = words.Number<uint32_t>();
  if (event->id > kIdMax) return false;
  switch (event->kind) {
    case TraceKind::kVgpu:
    case TraceKind::kSpec: return ParseSpec(words, &event->spec) && words.Done();
    case TraceKind::kCame:
    case TraceKind::kWants:
    case TraceKind::kBusy:
    case TraceKind::kTogether:
    case TraceKind::kElsewhere:
    case TraceKind::kAppoint:
    case TraceKind::kGrant:
    case TraceKind::kQueued: return ParseValue(event->kind, words, &event->value) && words.Done();
    case TraceKind::kGate: return ParseGate(words, &event->gate) && words.Done();
    default: return words.Done();
  }
}

Status AtLine(size_t number, std::string_view line, std::string_view wanted) {
  return Status(StatusCode::kInvalidArgument, fmt::format("line {}: '{}' is not {}", number, Printable(line), wanted));
}

}  // namespace

std::string FormatTraceHead(std::string_view policy, bool request_zero) {
  return fmt::format("{}\npolicy {}\nrequest-zero {}\n", kFirstLine, policy, request_zero ? 1 : 0);
}

std::string FormatTraceEvent(const SchedulerEvent& event) {
  const std::string_view name = NameOf(event.kind);
  switch (event.kind) {
    case TraceKind::kDecide: return fmt::format("{} {}\n", event.at_ns, name);
    case TraceKind::kVgpu:
    case TraceKind::kSpec:
      return fmt::format("{} {} {} {} {} {} {}\n", event.at_ns, name, event.id, event.spec.request, event.spec.limit,
                         PriorityName(event.spec.priority), event.spec.name);
    case TraceKind::kCame:
    case TraceKind::kWants:
    case TraceKind::kBusy:
    case TraceKind::kTogether:
    case TraceKind::kElsewhere:
    case TraceKind::kAppoint:
    case TraceKind::kGrant:
    case TraceKind::kQueued: return fmt::format("{} {} {} {}\n", event.at_ns, name, event.id, event.value);
    case TraceKind::kGate:
      return fmt::format("{} {} {} {} {} {}\n", event.at_ns, name, event.id, GpuModeName(event.gate.mode),
                         event.gate.open_until_ns, event.gate.next ? 1 : 0);
    default: return fmt::format("{} {} {}\n", event.at_ns, name, event.id);
  }
}

Result<SchedulerTrace> ParseTrace(std::string_view text) {
  SchedulerTrace trace;
  std::string_view line;
  size_t number = 1;
  int64_t first_ns = kTimeNsMax, last_ns = 0;
  if (!TakeLine(&text, &line))
    return Status(StatusCode::kInvalidArgument, "line 1: a trace begins with the line 'tessera-trace 1'");
  if (line != kFirstLine && line.starts_with(kAnyVersion)) {
    return Status(StatusCode::kVersionMismatch,
                  fmt::format("line 1: '{}' is of another version than this program's '{}'", Printable(line), kFirstLine));
  }
  if (line != kFirstLine) return AtLine(1, line, fmt::format("'{}', with which a trace begins", kFirstLine));
  while (!text.empty()) {
    ++number;
    const std::string_view left = text;
    if (!TakeLine(&text, &line)) return AtLine(number, left, "a whole line: the file was cut off");
    if (line.empty() || line.front() == '#') continue;
    if (trace.policy.empty()) {
      LineWords words(line);
      if (words.Word() != "policy") return AtLine(number, line, "'policy NAME'");
      trace.policy = words.Word();
      if (!words.Done()) return AtLine(number, line, "'policy NAME'");
      continue;
    }
    if (line.starts_with("request-zero ") && trace.events.empty()) {
      if (line != "request-zero 0" && line != "request-zero 1") return AtLine(number, line, "'request-zero 0|1'");
      trace.request_zero = line.back() == '1';
      continue;
    }
    SchedulerEvent event;
    if (!ParseEvent(line, &event)) return AtLine(number, line, fmt::format("an event: NS and one of {}", kTraceForms));
    first_ns = std::min(first_ns, event.at_ns);
    last_ns = std::max(last_ns, event.at_ns);
    if (last_ns - first_ns > kTraceLengthNsMax) return AtLine(number, line, "within an hour of the other events");
    trace.events.push_back(std::move(event));
    trace.lines.push_back(number);
  }
  if (trace.policy.empty())
    return Status(StatusCode::kInvalidArgument, fmt::format("line {}: 'policy NAME' is missing", number + 1));
  return trace;
}

}  // namespace tessera
