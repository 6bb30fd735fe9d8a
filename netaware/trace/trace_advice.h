// What to change in a program, by where its time went. Pure: a table, with a row for each advice.
#pragma once

#include <string>
#include <vector>

#include "netaware/trace/trace_summary.h"

namespace tessera {

struct TraceAdvice {
  std::string id;    // stays the same, for scripts
  std::string text;  // a sentence
};

// What applies, in the order of the table: what makes the rest doubtful, then what is cheapest to change. Never empty.
std::vector<TraceAdvice> AdviceFor(const TraceSummary& summary);

}  // namespace tessera
