// --record: a file with all that one GPU's time was told and answered, as tessera-replay reads it (scheduler/simulate/trace.h).
// One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "scheduler/simulate/trace.h"

namespace tessera {

class TraceFile {
 public:
  // Makes the file, or empties it. kPermissionDenied, kNotFound, kInternal.
  static Result<TraceFile> Make(const std::string& path, std::string_view policy, bool request_zero);

  // Ends by itself, with a line in the log, when the trace is as long as one may be, or when it cannot be written. What was
  // added is written each second of the events' time, so that a process that is killed leaves nearly all of it.
  void Add(const SchedulerEvent& event);
  // Writes what was added since.
  void Flush();

 private:
  TraceFile(UniqueFd file, std::string path, std::string text)
      : file_(std::move(file)), path_(std::move(path)), text_(std::move(text)) {}

  UniqueFd file_;
  std::string path_;
  std::string text_;  // to be written
  int64_t first_ns_ = -1;
  int64_t flushed_ns_ = 0;
};

}  // namespace tessera
