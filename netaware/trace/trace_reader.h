// Reads a file that TESSERA_TRACE named.
#pragma once

#include <istream>
#include <string>

#include "netaware/trace/trace_facts.h"
#include "protocol/base/status.h"

namespace tessera {

// The form that is read: Trace::kVersion of client-stub/session/trace.h, whose file says it.
inline constexpr int kTraceVersion = 1;

// The facts of the trace in `file`, called `name` in sentences. Names of others are made printable. Or why not, as a sentence
// that says what to do:
//   kUnavailable        it ends before its end
//   kInvalidArgument    it is no trace of Tessera
//   kVersionMismatch    it is one of another form
Result<TraceFacts> ReadTrace(std::istream& file, const std::string& name);

// The same of the file at `path`; kNotFound: it cannot be read. What is no regular file is not read.
Result<TraceFacts> ReadTraceFile(const std::string& path);

}  // namespace tessera
