// The record of a GPU's scheduler as lines of text: what a broker was told, and what it answered.
//
//   tessera-trace 1
//   policy fair
//   request-zero 1
//   1000 vgpu 0 0.69999999999999996 1 normal train
//   1000 came 0 0
//   5000 wants 0 1
//   5000 decide
//   5000 gate 0 metered 2005000 0
//
// The first line names the format and its version, the next two the policy and the rule of admission. Each further line is one
// event: its time in nanoseconds, what it is, and its fields (kTraceForms). Times are those that GpuTime was told. A report's
// time may go back a little, a decision's never does. Lines that begin with # are comments. `gate` lines are answers: they follow
// their `decide`, in the order of vGPUs. Reading a number gives the value that was written, bit for bit. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"
#include "scheduler/vgpu_state.h"

namespace tessera {

enum class TraceKind {
  kVgpu,
  kSpec,
  kGone,
  kCame,
  kLeft,
  kWants,
  kBusy,
  kQueued,
  kWorked,
  kTogether,
  kElsewhere,
  kAppoint,
  kGrant,
  kDecide,
  kGate
};

struct SchedulerEvent {
  int64_t at_ns = 0;
  TraceKind kind = TraceKind::kDecide;
  uint32_t id = 0;    // a vGPU's number (vgpu, spec, gone, appoint, grant, gate), or a session's
  int64_t value = 0;  // came: the vGPU; wants, busy, together, elsewhere: 0 or 1; queued: nanoseconds; appoint, grant: a time
  VgpuSpec spec{};    // vgpu, spec
  GateState gate{};   // gate

  friend bool operator==(const SchedulerEvent&, const SchedulerEvent&) = default;
};

struct SchedulerTrace {
  std::string policy;
  bool request_zero = true;
  std::vector<SchedulerEvent> events;
  std::vector<size_t> lines;  // on which each event stands, counted from 1
};

// From the first event to the last; reports are made of steps of 10 ms.
inline constexpr int64_t kTraceLengthNsMax = 3600 * kSecondNs;

// The events of a line, for people.
inline constexpr std::string_view kTraceForms =
    "vgpu ID REQUEST LIMIT PRIORITY NAME, spec ID REQUEST LIMIT PRIORITY NAME, gone ID, came SESSION VGPU, left SESSION, wants "
    "SESSION 0|1, "
    "busy SESSION 0|1, queued SESSION NS, worked SESSION, together SESSION 0|1, elsewhere SESSION 0|1, appoint VGPU AT_NS, grant "
    "VGPU UNTIL_NS, decide, "
    "gate VGPU MODE OPEN_UNTIL_NS NEXT";

// Lines that ParseTrace() reads, each with its end.
std::string FormatTraceHead(std::string_view policy, bool request_zero);
std::string FormatTraceEvent(const SchedulerEvent& event);

// Checks the form and the bounds of each line; Replay() checks what they mean together. kInvalidArgument: the sentence begins
// with "line N:"; kVersionMismatch: a trace of another version.
Result<SchedulerTrace> ParseTrace(std::string_view text);

}  // namespace tessera
