// Which vGPUs there are, and which of them a session is in.
#include <errno.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "scheduler/admission.h"
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

// As VgpuBook::TextOfApi() writes it; empty: it is not there.
std::string NameIn(std::string_view text) {
  constexpr std::string_view kKey = "name = \"";
  const size_t begin = text.find(kKey);
  if (begin == std::string_view::npos) return "";
  text.remove_prefix(begin + kKey.size());
  return std::string(text.substr(0, text.find('"')));
}

// The first `size` bytes of a file that may be shorter by now.
Result<std::string> ReadText(int file, size_t size, const char* what) {
  std::string text(size, '\0');
  size_t have = 0;
  while (have < size) {
    const ssize_t got = pread(file, text.data() + have, size - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::FromErrno(fmt::format("cannot read the {}", what), errno);
    if (got == 0)
      return Status(StatusCode::kProtocolViolation, fmt::format("the text of the {} is shorter than the daemon says", what));
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
  const Result<std::string> text = ReadText(file.get(), message.size_bytes, "file of vGPUs");
  if (!text.ok()) return text.status();
  Result<VgpuFile> wanted = ReadVgpuFile(text.value(), {uuids_, options_.default_request});
  if (!wanted.ok()) return wanted.status();
  Result<VgpuBook> next = book_.WithFile(wanted->vgpus);
  if (!next.ok()) return next.status();
  RETURN_IF_ERROR(Adopt(std::move(next).value(), wanted->vgpus, now_ns));
  for (const std::string& note : wanted->notes) LogWarning("{}: {}", message.path, note);
  LogInfo("{} vGPUs of {} are in force", wanted->vgpus.size(), message.path);
  return Status::Ok();
}

// The API.

void Broker::SayKept(std::string text) { Say(KeptMessage{book_.revision(), std::move(text)}); }

void Broker::SayAnswered(AnsweredMessage answered) {
  Say(answered);
  answered_.Add(std::move(answered.request));
}

Status Broker::TakeTold(const ToldMessage& told, std::span<const UniqueFd> fds) {
  is_told_ = true;
  if (told.answered_bytes == 0) return Status::Ok();
  if (fds.size() != 1) return Status(StatusCode::kProtocolViolation, "the daemon sent answered requests without their text");
  const Result<std::string> text = ReadText(fds[0].get(), told.answered_bytes, "answered requests");
  if (!text.ok()) return text.status();
  Result<AnsweredRequests> answered = AnsweredRequests::Decode(std::as_bytes(std::span(text.value())));
  if (!answered.ok()) return answered.status();
  answered_ = std::move(answered).value();
  return Status::Ok();
}

// One by one: what cannot be any more does not keep the others from it.
void Broker::TakeKept(const KeptMessage& kept, int64_t now_ns) {
  constexpr std::string_view kBegin = "[[vgpu]]";
  book_.RevisionsAfter(kept.revision);
  for (size_t at = kept.text.find(kBegin); at != std::string::npos;) {
    const size_t next = kept.text.find(kBegin, at + kBegin.size());
    const std::string text = kept.text.substr(at, next - at);
    at = next;
    const std::string name = NameIn(text);
    const Status status = TakeOneKept(text, now_ns);
    if (status.ok()) continue;
    LogWarning("vGPU '{}' of the API is not in force: {}", Printable(name), status.message());
    if (CheckVgpuSpec({.name = name}).ok()) book_.PutAside(name, {text, status.message()});
  }
  ++changes_;
}

Status Broker::TakeOneKept(const std::string& text, int64_t now_ns) {
  Result<VgpuFile> read = ReadVgpuFile(text, {uuids_, options_.default_request});
  if (!read.ok()) {
    // Nobody sees the lines of that file.
    const std::string& sentence = read.status().message();
    const size_t colon = sentence.find(": ");
    const bool has_line = sentence.starts_with("line ") && colon != std::string::npos;
    return Status(read.status().code(), has_line ? sentence.substr(colon + 2) : sentence);
  }
  for (FileVgpu& vgpu : read->vgpus) {
    vgpu.line = 0;
    Result<VgpuBook> next = book_.With(vgpu);
    if (!next.ok()) return next.status();
    RETURN_IF_ERROR(Adopt(std::move(next).value(), std::span(&vgpu, 1), now_ns));
  }
  return Status::Ok();
}

void Broker::DropAside(const std::string& name) {
  book_.DropAside(name);
  ++changes_;
}

// Both.

Status Broker::Adopt(VgpuBook next, std::span<const FileVgpu> changed, int64_t now_ns) {
  std::vector<VgpuChange> changes;
  const Gpu::Coming coming = Coming(now_ns);
  for (uint32_t row = 0; row < gpus_.size(); ++row) {
    Result<VgpuChange> change = gpus_[row]->Plan(next.WantedOf(row, changed), coming);
    if (!change.ok()) return change.status();
    changes.push_back(std::move(change).value());
  }
  // Nothing is refused from here on.
  for (size_t row = 0; row < gpus_.size(); ++row) gpus_[row]->Apply(changes[row], now_ns);
  book_ = std::move(next);
  ++changes_;
  for (auto& [number, session] : sessions_) {
    if (!session.settled) Settle(session, now_ns);
  }
  return Status::Ok();
}

uint32_t Broker::SessionsIn(uint32_t gpu, std::string_view vgpu) const { return gpus_[gpu]->SessionsOf(vgpu); }

std::vector<std::map<std::string_view, uint32_t>> Broker::SessionsByVgpu() const {
  std::vector<std::map<std::string_view, uint32_t>> sessions(gpus_.size());
  for (size_t row = 0; row < gpus_.size(); ++row) {
    const GpuTime& time = gpus_[row]->time();
    for (const VgpuId vgpu : time.vgpus()) sessions[row][time.state(vgpu).spec.name] += time.state(vgpu).sessions;
  }
  return sessions;
}

void Broker::EndSessionsIn(uint32_t gpu, std::string_view vgpu, int64_t at_ns) {
  for (const auto& [number, session] : sessions_) {
    const Gpu::Member* const member = session.members[gpu];
    if (member != nullptr && gpus_[gpu]->NameOf(member->vgpu()) == vgpu) {
      Say(EndMessage{number, static_cast<uint64_t>(at_ns)});
    }
  }
}

// Sessions.

// A program whose forerunner in the vGPU has just ended waits until its worker has, too.
void Broker::Answer(const AskMessage& ask, int64_t now_ns) {
  if (TryAnswer(ask, now_ns, waiting_.size() == kWaitingMax)) return;
  waiting_.push_back({ask, now_ns + kRoomWaitNs});
  tick_ns_ = std::min(tick_ns_, now_ns + kRoomWaitNs);
}

void Broker::AnswerWaiting(int64_t now_ns) {
  std::erase_if(waiting_, [&](const Waiting& each) { return TryAnswer(each.ask, now_ns, now_ns >= each.until_ns); });
}

bool Broker::TryAnswer(const AskMessage& ask, int64_t now_ns, bool is_last_time) {
  std::erase_if(places_, [&](const KeptPlace& place) { return now_ns >= place.until_ns; });
  AskAnswer answer;
  answer.id = ask.id;
  const Status status = Judge(ask, now_ns, is_last_time, &answer);
  const bool may_come = status.code() == StatusCode::kFull || status.code() == StatusCode::kResourceExhausted;
  if (may_come && !is_last_time) return false;
  if (!status.ok()) {
    answer.rows.clear();
    answer.memory_limits.clear();
    answer.context_bytes.clear();
    LogInfo("no session for {}: {}", ask.holder, status.message());
  }
  if (status.ok() && ask.begins) KeepPlace(ask, now_ns);
  answer.code = status.code();
  answer.sentence = status.message();
  Say(answer);
  return true;
}

Gpu::Coming Broker::Coming(int64_t now_ns) const {
  Gpu::Coming coming;
  for (const KeptPlace& place : places_) {
    if (now_ns >= place.until_ns) continue;
    for (const std::string_view vgpu : NamesOf(place.vgpus)) ++coming[std::string(vgpu)];
  }
  return coming;
}

Status Broker::CheckPlaceIn(const BookedVgpu& vgpu, const Gpu::Coming& coming) const {
  const std::string& name = vgpu.spec.name;
  const uint32_t most = vgpu.spec.max_sessions;
  if (most == 0) return Status::Ok();
  const uint32_t there = SessionsIn(vgpu.gpu, name);
  const auto found = coming.find(name);
  const size_t sessions = there + (found == coming.end() ? 0 : found->second);
  if (sessions < most) return Status::Ok();
  return Status(StatusCode::kFull,
                fmt::format("vGPU '{}' has {} session{}, and may have {} at a time: end one, or have its --max-sessions raised",
                            name, sessions, sessions == 1 ? "" : "s", most));
}

void Broker::KeepPlace(const AskMessage& ask, int64_t now_ns) {
  const std::vector<std::string_view> names = NamesOf(ask.vgpus);
  const bool is_limited = std::ranges::any_of(names, [&](std::string_view name) {
    const VgpuSpec& spec = book_.Find(name)->spec;
    return spec.max_sessions != 0 || IsOfGrant(spec);
  });
  if (is_limited) places_.push_back({ask.vgpus, now_ns + kPlaceKeptNs});
}

Status Broker::Judge(const AskMessage& ask, int64_t now_ns, bool is_last_time, AskAnswer* answer) const {
  const Gpu::Coming coming = Coming(now_ns);
  const std::vector<std::string_view> names = NamesOf(ask.vgpus);
  for (const std::string_view name : names) {
    // Whether it is not there or another's is nobody's business.
    const BookedVgpu* const found = book_.Find(name);
    if (found == nullptr || !found->IsFor(ask.holder)) {
      return Status(StatusCode::kPermissionDenied, fmt::format("no vGPU '{}' for you here: ask whoever runs the server for one{}",
                                                               Printable(name), options_.has_default ? ", or name none" : ""));
    }
    if (ask.begins || ask.will_begin) RETURN_IF_ERROR(CheckPlaceIn(*found, coming));
    uint64_t context_bytes = 0;
    if (ask.begins) {
      const Status room = gpus_[found->gpu]->CheckRoomIn(name, coming);
      // As on a card that is full: making a context fails, not beginning. A grant is of so many processes.
      if (!room.ok() && (!is_last_time || IsOfGrant(found->spec))) return room;
      if (!room.ok()) context_bytes = memory(found->gpu).context_bytes;
    }
    answer->rows.push_back(found->gpu);
    answer->memory_limits.push_back(gpus_[found->gpu]->MemoryLimitOf(name));
    answer->context_bytes.push_back(context_bytes);
  }
  const std::vector<uint32_t>& rows = answer->rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto first = std::find(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(i), rows[i]) - rows.begin();
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
    const BookedVgpu* const found = book_.Find(name);
    if (found == nullptr || !wanted[found->gpu].empty()) continue;
    wanted[found->gpu] = name;
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
  if (member != nullptr || wanted) ++changes_;
  if (member != nullptr) gpus_[row]->Leave(std::exchange(member, nullptr), now_ns);
  if (wanted) {
    member = gpus_[row]->Join(session.pages, *wanted, alone, now_ns);
    // One whose vGPU is not there keeps the limit that it came with.
    if (session.vgpus.empty() || vgpu != kDefaultVgpu) gpus_[row]->JoinMemoryOf(*member);
  } else {
    session.pages.Tell(row, {});  // what a broker before this one has said does not hold any more
  }
}

}  // namespace tessera
