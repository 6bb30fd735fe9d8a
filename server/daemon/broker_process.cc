#include "server/daemon/broker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <span>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/start_program.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/channel/waiting.h"
#include "protocol/wire/holder.h"
#include "server/daemon/children/child_process.h"

namespace tessera {

BrokerProcess::BrokerProcess(const Options& options, GpusMessage gpus, ChildLogs& logs)
    : options_(options), logs_(logs), gpus_(std::move(gpus)) {}

Status BrokerProcess::Start() {
  RETURN_IF_ERROR(Launch());
  Result<SocketMessage> first = ReceiveMessage(line_.fd(), kBrokerMessageBytesMax, MonotonicNs() + options_.ready_timeout_ns());
  logs_.Relay();
  if (first.status().code() == StatusCode::kTimedOut) {
    kill(pid_, SIGKILL);
    return NotReadyInTime("tessera-broker", options_.ready_timeout_s);
  }
  Result<ReadyMessage> ready = first.ok() ? ReadyMessage::Decode(first->bytes) : first.status();
  if (!ready.ok()) return Status(StatusCode::kUnavailable, "no broker");
  ready_ns_ = heard_ns_ = MonotonicNs();
  return CheckRelease(*ready);
}

Status BrokerProcess::CheckRelease(const ReadyMessage& ready) {
  if (ready.release == TESSERA_VERSION) return Status::Ok();
  return Status(StatusCode::kVersionMismatch, "tessera-broker is of release " + ready.release + ", this server of " +
                                                  TESSERA_VERSION + ": install the same release of both");
}

Status BrokerProcess::Launch() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (self.parent_path() / "tessera-broker").string();
  Result<std::pair<UniqueFd, UniqueFd>> ends = MakeSocketPair();
  if (!ends.ok()) return ends.status();
  std::vector<std::string> arguments = {"--line-fd", std::to_string(kPassedFd), "--parent-pid", std::to_string(getpid()),
                                        "--log",     options_.log_word,         "--sandbox",    options_.sandbox_word};
  if (!options_.private_root) arguments.emplace_back("--machine-root");
  for (const std::string& policy : options_.policies) arguments.insert(arguments.end(), {"--policy", policy});
  if (options_.no_default_vgpu) arguments.insert(arguments.end(), {"--default", "none"});
  if (!options_.default_request.empty()) arguments.insert(arguments.end(), {"--default-request", options_.default_request});
  if (!options_.overrun_after.empty()) arguments.insert(arguments.end(), {"--overrun-after", options_.overrun_after});
  std::vector<int> passed = {ends->second.get()};
  Result<UniqueFd> names = control_listener_ >= 0 ? caller_names_.NewLine() : UniqueFd();
  if (!names.ok()) return names.status();
  for (const auto& [option, fd] : {std::pair("--control-fd", control_listener_),
                                   {"--names-fd", names->get()},
                                   {"--control-tls-fd", control_tls_listener_}}) {
    if (fd < 0) continue;
    arguments.insert(arguments.end(), {option, std::to_string(kPassedFd + static_cast<int>(passed.size()))});
    passed.push_back(fd);
  }
  if (passed.size() > 1) {
    std::vector<std::string> administrators = options_.administrators;
    administrators.insert(administrators.end(), {UserHolder(0), UserHolder(geteuid())});
    for (const std::string& holder : administrators) arguments.insert(arguments.end(), {"--admin", holder});
  }
  if (metrics_listener_ >= 0) {
    passed.push_back(metrics_listener_);
    arguments.insert(arguments.end(), {"--metrics-fd", std::to_string(kPassedFd + static_cast<int>(passed.size()) - 1),
                                       "--restarts", std::to_string(launches_)});
  }
  if (usage_line_ >= 0) {
    passed.push_back(usage_line_);
    arguments.insert(arguments.end(), {"--usage-line-fd", std::to_string(kPassedFd + static_cast<int>(passed.size()) - 1)});
  }
  ++launches_;
  if (!options_.record_path.empty()) {
    // What the one before wrote is kept.
    const std::string suffix = launches_ == 1 ? "" : "-" + std::to_string(launches_);
    arguments.insert(arguments.end(), {"--record", options_.record_path + suffix});
  }
  Result<pid_t> pid = logs_.Start(program, program, "tessera-broker", arguments, passed);
  if (!pid.ok() && access(program.c_str(), X_OK) == 0) return pid.status();
  if (!pid.ok()) return Status(StatusCode::kNotFound, program + ": " + pid.status().message() + "; install it again");
  pid_ = *pid;
  line_.Open(std::move(ends->first));
  ends->second.reset();
  heard_ns_ = MonotonicNs();
  ready_ns_ = 0;
  start_at_ns_ = 0;
  Send(gpus_);
  return Status::Ok();
}

template <typename Message>
void BrokerProcess::Send(const Message& message, std::span<const int> fds) {
  if (!line_.is_open()) return;
  Encoder encoder(kBrokerMessageBytesMax);
  message.Encode(encoder);
  // One that does not read for long hangs, and is ended for it.
  const Status sent = line_.Send(encoder.bytes(), fds);
  if (!sent.ok()) LogWarning("the broker was not told: {}", sent.message());
}

void BrokerProcess::Ask(const AskMessage& question) { Send(question); }

void BrokerProcess::Came(const CameMessage& session, const GateMemory& memory, int worker_pidfd) {
  Send(session, std::array{memory.gate_fd(), memory.report_fd(), memory.event_fd(), worker_pidfd});
}

void BrokerProcess::Left(uint64_t session) {
  LeftMessage left;
  left.session = session;
  Send(left);
}

void BrokerProcess::Seen(const SeenMessage& seen) { Send(seen); }

void BrokerProcess::Found(uint64_t session, uint32_t device, FoundMessage::What what) {
  FoundMessage found;
  found.session = session;
  found.device = device;
  found.what = what;
  Send(found);
}

void BrokerProcess::GiveBack(const KeptMessage& kept) { Send(kept); }

void BrokerProcess::Told(const AnsweredRequests& answered) {
  ToldMessage told;
  const UniqueFd memory(answered.bytes() == 0 ? -1 : memfd_create("tessera-answered", MFD_CLOEXEC));
  if (memory.valid()) {
    Encoder encoder;
    answered.Encode(encoder);
    const std::span<const std::byte> bytes = encoder.bytes();
    if (write(memory.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) told.answered_bytes = bytes.size();
  }
  if (told.answered_bytes > 0) return Send(told, std::array{memory.get()});
  if (answered.bytes() > 0) LogError("cannot give the broker what was answered before: errno {}", errno);
  Send(told);
}

void BrokerProcess::SendFile(const VgpuFileMessage& file, const std::string& text) {
  const UniqueFd memory(memfd_create("tessera-vgpus", MFD_CLOEXEC));
  if (!memory.valid() || write(memory.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return LogError("cannot give the broker {}: errno {}", file.path, errno);
  }
  Send(file, std::array{memory.get()});
}

void BrokerProcess::GiveKeys(const HandedKeys& keys) { Send(keys.message, std::array{keys.texts.get()}); }

BrokerProcess::Said BrokerProcess::Hear() {
  Said said = std::exchange(last_, {});
  if (line_.is_open()) line_.Flush();
  while (line_.is_open()) {
    Result<SocketMessage> message = ReceiveMessage(line_.fd(), kBrokerMessageBytesMax, 0);
    if (!message.ok()) {
      if (message.status().code() == StatusCode::kTimedOut) break;
      line_.Close();  // it is ending
      answered_.clear();
      break;
    }
    heard_ns_ = MonotonicNs();
    Hear(*message, &said);
  }
  return said;
}

void BrokerProcess::Hear(const SocketMessage& message, Said* said) {
  switch (BrokerWordOf(message.bytes)) {
    case BrokerWord::kReady:
      ready_ns_ = heard_ns_;
      // Of one that was started anew; the file may be another one by now.
      if (Result<ReadyMessage> ready = ReadyMessage::Decode(message.bytes); ready.ok() && !CheckRelease(*ready).ok()) {
        LogError("{}", CheckRelease(*ready).message());
        if (pid_ > 0) kill(pid_, SIGKILL);
      }
      break;
    case BrokerWord::kAskAnswer:
      if (Result<AskAnswer> answer = AskAnswer::Decode(message.bytes); answer.ok()) said->answers.push_back(std::move(*answer));
      break;
    case BrokerWord::kVgpuFileAnswer:
      if (Result<VgpuFileAnswer> answer = VgpuFileAnswer::Decode(message.bytes); answer.ok())
        said->files.push_back(std::move(*answer));
      break;
    case BrokerWord::kFigures:
      if (Result<FiguresMessage> figures = FiguresMessage::Decode(message.bytes); figures.ok())
        said->figures = std::move(*figures);
      break;
    case BrokerWord::kOwners:
      if (Result<OwnersMessage> owners = OwnersMessage::Decode(message.bytes); owners.ok())
        said->owners.push_back(std::move(*owners));
      break;
    case BrokerWord::kReported:
      if (Result<ReportedMessage> reported = ReportedMessage::Decode(message.bytes); reported.ok())
        said->reported = std::move(*reported);
      break;
    case BrokerWord::kEnd:
      if (Result<EndMessage> end = EndMessage::Decode(message.bytes); end.ok()) said->to_end.push_back(*end);
      break;
    case BrokerWord::kKept:
      if (Result<KeptMessage> kept = KeptMessage::Decode(message.bytes); kept.ok()) {
        said->kept = std::move(*kept);
        std::ranges::move(std::exchange(answered_, {}), std::back_inserter(said->answered));
      }
      break;
    case BrokerWord::kAnswered:
      if (Result<AnsweredMessage> answered = AnsweredMessage::Decode(message.bytes); answered.ok())
        (answered->with_next_kept ? answered_ : said->answered).push_back(std::move(answered->request));
      break;
    case BrokerWord::kControlKeysAnswer:
      if (Result<ControlKeysAnswer> answer = ControlKeysAnswer::Decode(message.bytes); answer.ok())
        said->keys.push_back(std::move(*answer));
      break;
    default: break;
  }
}

bool BrokerProcess::Tend() {
  const uint64_t now_ns = MonotonicNs();
  if (pid_ > 0) {
    if (now_ns - heard_ns_ < silence_ns()) return false;
    LogError("the broker has said nothing for {} s, and is started anew", silence_ns() / 1'000'000'000);
    kill(pid_, SIGKILL);
    heard_ns_ = now_ns;  // it is reaped soon
    return false;
  }
  if (start_at_ns_ == 0 || now_ns < start_at_ns_) return false;
  const Status started = Launch();
  if (started.ok()) return true;
  LogError("the broker does not start: {}", started.message());
  start_at_ns_ = now_ns + (kPauseNs << std::min(++crashes_, kCrashesMax));
  return false;
}

uint64_t BrokerProcess::next_ns() const {
  if (pid_ > 0) return heard_ns_ + silence_ns();
  return start_at_ns_ == 0 ? kNoDeadline : start_at_ns_;
}

void BrokerProcess::StartAnew() {
  if (pid_ <= 0) return;
  is_asked_ = true;
  kill(pid_, SIGTERM);  // one that hangs is ended by Tend()
}

bool BrokerProcess::Forget(pid_t pid, int wait_status) {
  if (pid != pid_) return false;
  pid_ = -1;
  last_ = Hear();
  line_.Close();
  answered_.clear();
  const uint64_t now_ns = MonotonicNs();
  if (std::exchange(is_asked_, false)) {
    LogInfo("the broker is started anew, with options that have changed");
    start_at_ns_ = now_ns;
    return true;
  }
  crashes_ = ready_ns_ == 0 || now_ns - ready_ns_ < kHungNs ? crashes_ + 1 : 0;
  LogError("the broker {}{}", DescribeWaitStatus(wait_status),
           crashes_ < kCrashesMax ? "; another one is started, and sessions go by fixed slots meanwhile"
                                  : " once more: shares are fixed slots until one stays");
  start_at_ns_ = now_ns + (crashes_ == 0 ? 0 : kPauseNs << std::min(crashes_, kCrashesMax));
  return true;
}

void BrokerProcess::Stop() {
  start_at_ns_ = 0;
  if (pid_ <= 0) return;
  // It finishes what it writes down; one that hangs does not.
  EndChild(pid_, kEndNs);
  pid_ = -1;
  line_.Close();
}

}  // namespace tessera
