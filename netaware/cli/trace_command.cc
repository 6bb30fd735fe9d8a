#include "netaware/cli/trace_command.h"

#include <cstdio>
#include <string>

#include "netaware/cli/exit_codes.h"
#include "netaware/trace/summary_text.h"
#include "netaware/trace/trace_reader.h"
#include "netaware/trace/trace_summary.h"
#include "protocol/base/status.h"

namespace tessera {

int TraceCommand(const TraceOptions& options) {
  const Result<TraceFacts> facts = ReadTraceFile(options.file);
  if (!facts.ok()) {
    std::fprintf(stderr, "tessera: %s\n", facts.status().message().c_str());
    return facts.status().code() == StatusCode::kVersionMismatch ? kExitOtherVersion : kExitFile;
  }
  const TraceSummary summary = Summarize(facts.value());
  std::fputs((options.output == "json" ? SummaryJson(summary) : SummaryText(summary)).c_str(), stdout);
  return kExitOk;
}

}  // namespace tessera
