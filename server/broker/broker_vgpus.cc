// Which vGPUs there are, and which of them a session is in.
#include <errno.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "server/broker/broker.h"

namespace tessera {
namespace {

std::vector<std::string_view> NamesOf(std::string_view vgpus) {
  std::vector<std::string_view> names;
  while (true) {
    const size_t plus = vgpus.find('+');
    names.push_back(vgpus.substr(0, plus));
    if (plus == std::string_view::npos) return names;
    vgpus.remove_prefix(plus + 1);
  }
}

// The first `size` bytes of a file that may be shorter by now.
Result<std::string> ReadText(int file, size_t size) {
  std::string text(size, '\0');
  size_t have = 0;
  while (have < size) {
    const ssize_t got = pread(file, text.data() + have, size - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::FromErrno("cannot read the file of vGPUs", errno);
    if (got == 0) return Status(StatusCode::kProtocolViolation, "the text of the file of vGPUs is shorter than the daemon says");
    have += static_cast<size_t>(got);
  }
  return text;
}

}  // namespace

// The file.

Status Broker::TakeFile(const VgpuFileMessage& message, const UniqueFd& file, int64_t now_ns) {
  const Status status = ApplyFile(message, file, now_ns);
  if (status.code() == StatusCode::kProtocolViolation) return status;
  const std::string sentence = status.ok() ? "" : fmt::format("{}: {}", message.path, status.message());
  if (!status.ok()) LogWarning("the vGPUs stay as they are: {}", sentence);
  Say(VgpuFileAnswer{message.revision, status.code(), sentence});
  return Status::Ok();
}

Status Broker::ApplyFile(const VgpuFileMessage& message, const UniqueFd& file, int64_t now_ns) {
  const Result<std::string> text = ReadText(file.get(), message.size_bytes);
  if (!text.ok()) return text.status();
  Result<VgpuFile> wanted = ReadVgpuFile(text.value(), {uuids_, options_.default_request});
  if (!wanted.ok()) return wanted.status();
  std::vector<std::vector<FileVgpu>> of_gpu(gpus_.size());
  for (const FileVgpu& vgpu : wanted->vgpus) of_gpu[vgpu.gpu].push_back(vgpu);
  std::vector<VgpuChange> changes;
  for (size_t row = 0; row < gpus_.size(); ++row) {
    Result<VgpuChange> change = gpus_[row]->Plan(of_gpu[row]);
    if (!change.ok()) return change.status();
    changes.push_back(std::move(change).value());
  }
  // Nothing is refused from here on.
  for (size_t row = 0; row < gpus_.size(); ++row) gpus_[row]->Apply(changes[row], now_ns);
  named_.clear();
  for (const FileVgpu& vgpu : wanted->vgpus) named_[vgpu.spec.name] = {vgpu.gpu, vgpu.owners};
  for (auto& [number, session] : sessions_) {
    if (!session.settled) Settle(session, now_ns);
  }
  for (const std::string& note : wanted->notes) LogWarning("{}: {}", message.path, note);
  LogInfo("{} vGPUs of {} are in force", named_.size(), message.path);
  return Status::Ok();
}

// Sessions.

void Broker::Answer(const AskMessage& ask) {
  AskAnswer answer;
  answer.id = ask.id;
  const Status status = Judge(ask, &answer.rows);
  if (!status.ok()) {
    answer.rows.clear();
    LogInfo("no session for {}: {}", ask.holder, status.message());
  }
  answer.code = status.code();
  answer.sentence = status.message();
  Say(answer);
}

Status Broker::Judge(const AskMessage& ask, std::vector<uint32_t>* rows) const {
  const std::vector<std::string_view> names = NamesOf(ask.vgpus);
  for (const std::string_view name : names) {
    // Whether it is not there or another's is nobody's business.
    const auto found = named_.find(name);
    const bool may =
        found != named_.end() && (found->second.owners.empty() || std::ranges::count(found->second.owners, ask.holder) > 0);
    if (!may) {
      return Status(StatusCode::kPermissionDenied, fmt::format("no vGPU '{}' for you here: ask whoever runs the server for one{}",
                                                               Printable(name), options_.has_default ? ", or name none" : ""));
    }
    rows->push_back(found->second.gpu);
  }
  for (size_t i = 0; i < rows->size(); ++i) {
    const auto first = std::find(rows->begin(), rows->begin() + static_cast<ptrdiff_t>(i), (*rows)[i]) - rows->begin();
    if (static_cast<size_t>(first) == i) continue;
    return Status(StatusCode::kInvalidArgument, fmt::format("vGPUs '{}' and '{}' are of one GPU: a session has one of each GPU",
                                                            names[static_cast<size_t>(first)], names[i]));
  }
  return Status::Ok();
}

// Puts a session where it belongs, as far as that is known.
void Broker::Settle(Session& session, int64_t now_ns) {
  std::vector<std::string_view> wanted(gpus_.size());  // by row
  size_t known = 0;
  const std::vector<std::string_view> names = session.vgpus.empty() ? std::vector<std::string_view>() : NamesOf(session.vgpus);
  for (const std::string_view name : names) {
    const auto found = named_.find(name);
    if (found == named_.end() || !wanted[found->second.gpu].empty()) continue;
    wanted[found->second.gpu] = name;
    ++known;
  }
  const uint32_t visible = session.pages.report().visible_rows.load(std::memory_order_acquire);
  session.settled = names.empty() ? visible != 0 : known == names.size();
  if (known < names.size() || names.empty()) {
    for (size_t row = 0; row < gpus_.size(); ++row) {
      if ((visible >> row & 1) != 0 && wanted[row].empty()) wanted[row] = kDefaultVgpu;
    }
  }
  const auto parts = std::count_if(wanted.begin(), wanted.end(), [](std::string_view name) { return !name.empty(); });
  for (size_t row = 0; row < gpus_.size(); ++row) Place(session, row, wanted[row], parts == 1, now_ns);
}

void Broker::Place(Session& session, size_t row, std::string_view vgpu, bool alone, int64_t now_ns) {
  Gpu::Member*& member = session.members[row];
  const std::optional<VgpuId> wanted = gpus_[row]->FindVgpu(vgpu);
  // Who is in a vGPU stays there, also when the file does not name it any more.
  if (member != nullptr && (wanted == member->vgpu() || gpus_[row]->NameOf(member->vgpu()) != kDefaultVgpu)) return;
  EndSet(session, now_ns);
  if (member != nullptr) gpus_[row]->Leave(std::exchange(member, nullptr), now_ns);
  if (wanted) {
    member = gpus_[row]->Join(session.pages, *wanted, alone, now_ns);
  } else {
    session.pages.Tell(row, {});  // what a broker before this one has said does not hold any more
  }
}

}  // namespace tessera
