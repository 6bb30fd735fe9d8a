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
#include "protocol/base/checksum.h"
#include "protocol/base/log.h"
#include "protocol/base/small_file.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/waiting.h"

namespace tessera {
namespace {

// Behind it: the revision, then as Sealed() writes it.
constexpr std::string_view kFirstLine = "# vGPUs made by 'tessera vgpu', which alone changes them; revision ";
constexpr size_t kFirstLineBytesMax = kFirstLine.size() + 120;
constexpr size_t kFileBytesMax = kFirstLineBytesMax + KeptMessage::kTextBytesMax + sizeof(uint32_t) + AnsweredRequests::kBytesMax;

constexpr std::string_view kBytes = " bytes", kAnswers = " bytes of answers";

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string Sealed(uint64_t revision, std::string_view text, std::string_view answers) {
  uint64_t sum = ChecksumOf(std::as_bytes(std::span(&revision, 1)));
  sum = ChecksumOf(BytesOf(answers), ChecksumOf(BytesOf(text), sum));
  // As releases write it that keep no answers, where there are none.
  const std::string more = answers.empty() ? "" : fmt::format(", {}{}", answers.size(), kAnswers);
  return fmt::format("{}{}, {}{}{}, checksum {:016x}\n{}{}", kFirstLine, revision, text.size(), kBytes, more, sum, text, answers);
}

// Empty where there are none.
std::string BytesOf(const AnsweredRequests& answered) {
  if (answered.bytes() == 0) return "";
  Encoder out;
  answered.Encode(out);
  return {reinterpret_cast<const char*>(out.bytes().data()), out.bytes().size()};
}

// The number in front of `unit` in the first line; 0: there is none.
uint64_t NumberBefore(std::string_view line, std::string_view unit) {
  const size_t end = line.find(std::string(unit) + ",");
  const size_t comma = end == std::string_view::npos ? end : line.rfind(' ', end - 1);
  uint64_t number = 0;
  if (comma != std::string_view::npos) std::from_chars(line.data() + comma + 1, line.data() + end, number);
  return number;
}

}  // namespace

Result<StateFile> StateFile::Open(const std::string& path) {
  StateFile state(path);
  const Result<std::string> text = ReadSmallFile(path, kFileBytesMax);
  if (text.status().code() == StatusCode::kNotFound) return state;
  if (!text.ok()) return Status(text.status().code(), fmt::format("cannot read the state: {}", text.status().message()));
  const std::string_view all = text.value();
  const std::string_view line = all.substr(0, all.find('\n'));
  const std::string_view rest = all.substr(std::min(line.size() + 1, all.size()));
  KeptMessage kept;
  if (line.starts_with(kFirstLine)) std::from_chars(line.data() + kFirstLine.size(), line.data() + line.size(), kept.revision);
  const std::string_view answers = rest.substr(rest.size() - std::min<uint64_t>(rest.size(), NumberBefore(line, kAnswers)));
  kept.text = rest.substr(0, rest.size() - answers.size());
  bool is_whole = kept.text.size() <= KeptMessage::kTextBytesMax && all == Sealed(kept.revision, kept.text, answers);
  if (is_whole && !answers.empty()) {
    Result<AnsweredRequests> answered = AnsweredRequests::Decode(BytesOf(answers));
    is_whole = answered.ok();
    if (is_whole) state.answered_ = std::move(answered).value();
  }
  if (!is_whole) {
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
  is_written_ = path_.empty();
}

void StateFile::Keep(AnsweredRequest answered) {
  answered_.Add(std::move(answered));
  is_written_ = path_.empty();
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
  const KeptMessage none;
  const KeptMessage& kept = kept_ ? *kept_ : none;
  const std::string text = Sealed(kept.revision, kept.text, BytesOf(answered_));
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
