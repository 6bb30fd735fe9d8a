#include "netaware/store/last_commit.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "protocol/base/checksum.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

// The contents of the file.
struct Form {
  LastCommit::Commit commit;
  uint64_t sum = 0;  // of the commit
};

uint64_t SumOf(const LastCommit::Commit& commit) { return ChecksumOf(std::as_bytes(std::span(&commit, 1))); }

}  // namespace

Result<LastCommit> LastCommit::Open(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return Status::FromErrno(fmt::format("{}: what the store has answered cannot be kept", path), errno);
  return LastCommit(path, std::move(file));
}

std::optional<LastCommit::Commit> LastCommit::Read() const {
  Form form;
  if (pread(file_.get(), &form, sizeof(form), 0) != ssize_t{sizeof(form)} || form.sum != SumOf(form.commit)) return std::nullopt;
  return form.commit;
}

void LastCommit::Write(const Commit& commit) {
  const Form form{commit, SumOf(commit)};
  if (pwrite(file_.get(), &form, sizeof(form), 0) == ssize_t{sizeof(form)} || is_told_) return;
  is_told_ = true;
  LogWarning("{}: what the store has answered is not kept there: {}", path_, Status::FromErrno("", errno).message());
}

}  // namespace tessera
