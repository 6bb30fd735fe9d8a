#include "server/broker/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr size_t kFlushBytes = 64 * 1024;
// Reports may be older than what was told before.
constexpr int64_t kLengthNsMax = kTraceLengthNsMax - kSecondNs;

}  // namespace

Result<TraceFile> TraceFile::Make(const std::string& path, std::string_view policy, bool request_zero) {
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return Status::FromErrno("cannot make the record " + path, errno);
  return TraceFile(std::move(file), path, FormatTraceHead(policy, request_zero));
}

void TraceFile::Add(const SchedulerEvent& event) {
  if (!file_.valid()) return;
  if (first_ns_ < 0) first_ns_ = flushed_ns_ = event.at_ns;
  if (event.at_ns - first_ns_ > kLengthNsMax) {
    Flush();
    LogWarning("the record {} ends here: it is an hour long", path_);
    return file_.reset();
  }
  text_ += FormatTraceEvent(event);
  if (text_.size() < kFlushBytes && event.at_ns - flushed_ns_ < kSecondNs) return;
  Flush();
  flushed_ns_ = event.at_ns;
}

void TraceFile::Flush() {
  if (!file_.valid() || text_.empty()) return;
  std::string_view rest = text_;
  while (!rest.empty()) {
    const ssize_t written = write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      LogWarning("the record {} ends here: errno {}", path_, errno);
      file_.reset();
      break;
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  text_.clear();
}

}  // namespace tessera
