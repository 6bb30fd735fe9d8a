#include "server/daemon/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "programs/state_path.h"
#include "protocol/base/log.h"
#include "protocol/base/small_file.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

// Behind it: the revision, then as Sealed() writes it.
constexpr std::string_view kFirstLine = "# vGPUs made by 'tessera vgpu', which alone changes them; revision ";
constexpr size_t kFirstLineBytesMax = kFirstLine.size() + 80;

// FNV-1a (Fowler, Noll, Vo): against accidents, not against those who may write the file.
uint64_t ChecksumOf(uint64_t revision, std::string_view text) {
  uint64_t sum = 0xcbf29ce484222325;
  const auto add = [&sum](unsigned char byte) { sum = (sum ^ byte) * 0x100000001b3; };
  for (int shift = 0; shift < 64; shift += 8) add(static_cast<unsigned char>(revision >> shift));
  for (const char byte : text) add(static_cast<unsigned char>(byte));
  return sum;
}

std::string Sealed(const KeptMessage& kept) {
  return fmt::format("{}{}, {} bytes, checksum {:016x}\n{}", kFirstLine, kept.revision, kept.text.size(),
                     ChecksumOf(kept.revision, kept.text), kept.text);
}

}  // namespace

Result<StateFile> StateFile::Open(const std::string& path) {
  StateFile state(path);
  const Result<std::string> text = ReadSmallFile(path, KeptMessage::kTextBytesMax + kFirstLineBytesMax);
  if (text.status().code() == StatusCode::kNotFound) return state;
  if (!text.ok()) return Status(text.status().code(), fmt::format("cannot read the state: {}", text.status().message()));
  const std::string& all = text.value();
  const size_t end = std::min(all.find('\n'), all.size());
  KeptMessage kept;
  if (all.starts_with(kFirstLine)) std::from_chars(all.data() + kFirstLine.size(), all.data() + end, kept.revision);
  kept.text = all.substr(std::min(end + 1, all.size()));
  if (all != Sealed(kept)) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} is no state of a tesserad, or damaged: move it away, or name another with --state", path));
  }
  state.kept_ = std::move(kept);
  return state;
}

Status StateFile::Prepare() const {
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::absolute(path_, error).parent_path();
  std::filesystem::create_directories(directory, error);
  if (error) return Status::FromErrno(fmt::format("cannot make {} for the state {}", directory.string(), path_), error.value());
  if (access(directory.c_str(), W_OK | X_OK) == 0) return Status::Ok();
  return Status::FromErrno("cannot write the state " + path_, errno);
}

void StateFile::Keep(KeptMessage kept) {
  kept_ = std::move(kept);
  is_written_ = false;
}

void StateFile::Tend(uint64_t now_ns) {
  if (is_written_ || now_ns < next_ns_) return;
  const Status status = Write();
  if (!status.ok() && !fails_) {
    LogWarning("{}; vGPUs go on, and it is tried again, but changes are lost if the server ends", status.message());
  }
  if (status.ok() && fails_) LogInfo("the state {} is written again", path_);
  is_written_ = status.ok();
  fails_ = !status.ok();
  next_ns_ = now_ns + (status.ok() ? kPauseNs : kFailedPauseNs);
}

void StateFile::Flush() {
  next_ns_ = 0;
  Tend(0);
}

uint64_t StateFile::next_ns() const { return is_written_ ? kNoDeadline : next_ns_; }

Status StateFile::Write() const {
  RETURN_IF_ERROR(Prepare());
  const std::string text = Sealed(*kept_);
  const std::string new_path = path_ + ".new";
  const auto failed = [&] {
    const int error = errno;
    unlink(new_path.c_str());  // a full disk has no room for a part of it
    return Status::FromErrno("cannot write the state " + path_, error);
  };
  const UniqueFd file(open(new_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return failed();
  for (size_t written = 0; written < text.size();) {
    const ssize_t count = write(file.get(), text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed();
    written += static_cast<size_t>(count);
  }
  if (fsync(file.get()) != 0 || rename(new_path.c_str(), path_.c_str()) != 0) return failed();
  return Status::Ok();
}

std::string DefaultStatePath(const std::string& socket_path) { return StatePath(socket_path, ".vgpus", sizeof(".usage") - 1); }

}  // namespace tessera
