// Reads a file that TESSERA_TRACE named.
#pragma once

#include <istream>
#include <string>

#include "netaware/trace/trace_facts.h"
#include "protocol/base/status.h"

namespace tessera {

// The version of the file's form that this reader supports: Trace::kVersion of client-stub/session/trace.h, which the file
// contains.
inline constexpr int kTraceVersion = 1;

// Returns the facts of the trace in `file`; error sentences call it `name`. Names from the file are made printable. An error's
// sentence contains advice:
//   kUnavailable        the file is cut off
//   kInvalidArgument    the file is not a trace of Tessera
//   kVersionMismatch    the trace has another version of the form
Result<TraceFacts> ReadTrace(std::istream& file, const std::string& name);

// The same for the file at `path`. kNotFound: it cannot be read, or is not a regular file.
Result<TraceFacts> ReadTraceFile(const std::string& path);

}  // namespace tessera
