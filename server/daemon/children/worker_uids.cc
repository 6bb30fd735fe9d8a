#include "server/daemon/children/worker_uids.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>

#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tessera {
namespace {

// Ids beyond mean "nobody" and "no change" to the kernel.
constexpr uint64_t kUidMax = 0xfffffffd;
constexpr uint64_t kOverflowUid = 65534;  // what ids look like that a namespace does not know; nobody's, as a rule

bool ParseId(std::string_view text, uint64_t* id) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *id);
  return error == std::errc() && end == text.data() + text.size() && *id >= 1 && *id <= kUidMax;
}

}  // namespace

Result<UidRange> ParseUidRange(const std::string& text) {
  const size_t dash = text.find('-');
  uint64_t first = 0;
  uint64_t last = 0;
  if (dash == std::string::npos || !ParseId(std::string_view(text).substr(0, dash), &first) ||
      !ParseId(std::string_view(text).substr(dash + 1), &last) || first > last) {
    return Status(StatusCode::kInvalidArgument, "'" + text + "' is no range of user ids: FIRST-LAST, from 1 on");
  }
  if (first <= kOverflowUid && last >= kOverflowUid) {
    return Status(StatusCode::kInvalidArgument,
                  "the range '" + text + "' contains 65534, which is nobody's: take one that no account has");
  }
  return UidRange{static_cast<uid_t>(first), static_cast<uid_t>(last)};
}

WorkerUids::WorkerUids(UidRange range, std::string directory) : range_(range), directory_(std::move(directory)) {}

Result<WorkerUids::Lease> WorkerUids::Take() {
  std::error_code none;
  std::filesystem::create_directories(directory_, none);
  for (uint64_t tried = 0; tried < range_.size(); ++tried) {
    const uint64_t offset = next_;
    next_ = (next_ + 1) % range_.size();
    const auto uid = static_cast<uid_t>(range_.first + offset);
    const std::string path = fmt::format("{}/{}", directory_, uid);
    UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock.valid()) return Status::FromErrno("cannot open " + path + ", which tells whose a user id is", errno);
    if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return Lease{uid, std::move(lock)};
    if (errno != EWOULDBLOCK) return Status::FromErrno("cannot lock " + path, errno);
  }
  return Status(StatusCode::kResourceExhausted,
                fmt::format("all {} user ids of --worker-uids are taken: give a larger range", range_.size()));
}

}  // namespace tessera
