// Advice how to make a program faster, derived from the summary of its time. Pure: a table with one row for each advice.
#pragma once

#include <string>
#include <vector>

#include "netaware/trace/trace_summary.h"

namespace tessera {

struct TraceAdvice {
  std::string id;    // stays the same, for scripts
  std::string text;  // a sentence
};

// The advice that applies, in the order of the table: first the problems that make the rest doubtful, then the cheapest
// changes. Never empty.
std::vector<TraceAdvice> AdviceFor(const TraceSummary& summary);

}  // namespace tessera
