#include "netaware/trace/event_reader.h"

#include <algorithm>
#include <cmath>

#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr double kNsOfUs = 1000;
constexpr double kNsMax = 1e18;  // thirty years; the sum of two such values fits into 64 bits
constexpr double kProgram = 1;   // the process number of the program in the file

int64_t Ns(double us) { return static_cast<int64_t>(std::clamp(us * kNsOfUs, 0.0, kNsMax)); }

// A thread number or a count, clamped to 32 bits.
template <typename T>
T Whole(double value) {
  constexpr double kMax = 4294967295;
  return static_cast<T>(std::clamp(value, 0.0, kMax));
}

}  // namespace

bool EventReader::start_object(size_t) {
  ++depth_;
  if (depth_ == kInEvent) event_ = Event();
  if (depth_ == kInArgs) within_ = key_;
  return true;
}

bool EventReader::end_object() {
  if (depth_ == kInEvent && section_ == "traceEvents") Add();
  --depth_;
  return true;
}

bool EventReader::start_array(size_t) {
  ++depth_;
  if (depth_ == kInList && section_ == "traceEvents") has_events_ = true;
  return true;
}

bool EventReader::end_array() {
  --depth_;
  return true;
}

bool EventReader::key(std::string& key) {
  if (depth_ == kRoot) section_ = key;
  key_ = key;
  return true;
}

bool EventReader::string(std::string& value) {
  if (section_ != "traceEvents") return true;
  if (depth_ == kInArgs && within_ == "args" && key_ == "name") event_.args_name = value;
  if (depth_ != kInEvent) return true;
  if (key_ == "ph") event_.phase = value;
  if (key_ == "name") event_.name = value;
  if (key_ == "cat") event_.category = value;
  return true;
}

bool EventReader::Number(double value) {
  if (!std::isfinite(value)) return true;
  if (depth_ == kInOther && section_ == "otherData") {
    if (key_ == "tessera_trace") version_ = Whole<int64_t>(value);
    if (key_ == "events_lost") facts_.events_lost = Whole<uint64_t>(value);
    if (key_ == "launches_unmeasured") facts_.unmeasured = Whole<uint64_t>(value);
  }
  if (section_ != "traceEvents") return true;
  if (depth_ == kInArgs && within_ == "args") {
    if (key_ == "waits") event_.waits = value;
    if (key_ == "thread") event_.sender = value;
  }
  if (depth_ != kInEvent) return true;
  if (key_ == "pid") event_.process = value;
  if (key_ == "tid") event_.thread = value;
  if (key_ == "ts") event_.begin_us = value;
  if (key_ == "dur") event_.took_us = value;
  return true;
}

void EventReader::Add() {
  const Span span = {Ns(event_.begin_us), Ns(event_.begin_us) + Ns(event_.took_us)};
  const auto thread = Whole<uint32_t>(event_.thread);
  if (event_.phase == "M" && event_.process == kProgram) {
    if (event_.name == "process_name") facts_.program = Printable(event_.args_name);
    if (event_.name == "thread_name") facts_.threads[thread] = Printable(event_.args_name);
  } else if (event_.phase == "M" && event_.name == "process_name") {
    facts_.servers += event_.args_name.starts_with("worker of ") ? 1 : 0;
  } else if (event_.phase == "b" && event_.category == "link and queue") {
    facts_.over_link = true;
  } else if (event_.phase != "X") {
    return;
  } else if (event_.category == "call") {
    facts_.calls.push_back({thread, NumberOf(event_.name), span, Whole<uint64_t>(event_.waits)});
  } else if (event_.category == "execution") {
    facts_.executions.push_back({Whole<uint32_t>(event_.sender), span});
  } else if (event_.category == "gpu") {
    facts_.work.push_back({NumberOf(event_.name), span});
  }
}

TraceFacts::Name EventReader::NumberOf(const std::string& name) {
  const auto [found, added] = numbers_.try_emplace(name, static_cast<TraceFacts::Name>(facts_.names.size()));
  if (added) facts_.names.push_back(Printable(name));
  return found->second;
}

}  // namespace tessera
