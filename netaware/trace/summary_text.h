// A summary of a trace for people, and for scripts. Pure.
#pragma once

#include <string>

#include "netaware/trace/trace_summary.h"

namespace tessera {

// About ten lines.
std::string SummaryText(const TraceSummary& summary);

// {"schema_version": 1, "program", "threads", "servers", "over_link", "wall_ns", "events_lost", "gpu": {"busy_ns", "launches",
// "unmeasured", "kernels": [{"name", "count", "ns"}]}, "thread": {"name", "calls", "program_ns", "library_ns", "gpu_ns",
// "server_ns", "way_ns"}, "round_trips": {"count", "functions": [{"name", "thread", "count", "ns"}]}, "advice": [{"id",
// "text"}]}: times in ns, lists with the longest first, all of it on one line.
std::string SummaryJson(const TraceSummary& summary);

}  // namespace tessera
