#include "server/daemon/node_process.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/base/start_program.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/channel/waiting.h"
#include "protocol/link/tls/key_files.h"
#include "server/daemon/children/child_process.h"

namespace tessera {

Status NodeProcess::Start(std::vector<std::string> urls) {
  if (options_.placer_url.empty()) return Status::Ok();
  urls_ = std::move(urls);
  return Launch();
}

Status NodeProcess::Launch() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (self.parent_path() / "tessera-node").string();
  Result<std::pair<UniqueFd, UniqueFd>> ends = MakeSocketPair();
  if (!ends.ok()) return ends.status();
  std::vector<std::string> arguments = {"--daemon-fd", std::to_string(kPassedFd),
                                        "--log",       options_.log_word,
                                        "--placer",    options_.placer_url,
                                        "--server",    "unix:" + options_.listen_path,
                                        "--control",   "unix:" + options_.control_path,
                                        "--sandbox",   options_.sandbox_word};
  if (!options_.private_root) arguments.emplace_back("--machine-root");
  if (!options_.host_id.empty()) arguments.insert(arguments.end(), {"--host-id", options_.host_id});
  for (const std::string& url : urls_) arguments.insert(arguments.end(), {"--address", url});
  // The server's own, which are for connecting too (`tessera keys host`).
  const KeyFiles keys = LocateKeyFiles(TlsRole::kServer, options_.link.keys);
  for (const auto& [option, file] :
       {std::pair("--certificate", keys.certificate), {"--key", keys.key}, {"--authority", keys.authority}}) {
    if (!file.empty()) arguments.insert(arguments.end(), {option, file});
  }
  Result<pid_t> pid = logs_.Start(program, program, "tessera-node", arguments, {ends->second.get()});
  if (!pid.ok()) return Status(StatusCode::kNotFound, program + ": " + pid.status().message() + "; install it again");
  pid_ = *pid;
  line_ = std::move(ends->first);
  started_ns_ = MonotonicNs();
  start_at_ns_ = 0;
  return Status::Ok();
}

void NodeProcess::Ask(const TicketQuestion& question) {
  if (!line_.valid()) return;
  Encoder encoder(kNodeMessageBytesMax);
  question.Encode(encoder);
  // One that does not read is asked in vain: whoever waits hears so when his time is over.
  const Status sent = SendMessage(line_.get(), encoder.bytes(), {}, 0);
  if (!sent.ok()) LogWarning("the node was not asked about a ticket: {}", sent.message());
}

std::vector<TicketAnswer> NodeProcess::Hear() {
  std::vector<TicketAnswer> answers;
  while (line_.valid()) {
    Result<SocketMessage> message = ReceiveMessage(line_.get(), kNodeMessageBytesMax, 0);
    if (!message.ok()) {
      if (message.status().code() != StatusCode::kTimedOut) line_.reset();  // it is ending
      break;
    }
    Result<TicketAnswer> answer = TicketAnswer::Decode(message->bytes);
    if (answer.ok()) {
      answers.push_back(std::move(*answer));
    } else {
      LogWarning("{}", answer.status().message());
    }
  }
  return answers;
}

bool NodeProcess::Tend() {
  const uint64_t now_ns = MonotonicNs();
  if (pid_ > 0 || start_at_ns_ == 0 || now_ns < start_at_ns_) return false;
  const Status started = Launch();
  if (started.ok()) return true;
  LogError("the node does not start: {}", started.message());
  start_at_ns_ = now_ns + (kPauseNs << std::min(++crashes_, kPausesMax));
  return false;
}

uint64_t NodeProcess::next_ns() const { return pid_ > 0 || start_at_ns_ == 0 ? kNoDeadline : start_at_ns_; }

bool NodeProcess::Forget(pid_t pid, int wait_status) {
  if (pid != pid_) return false;
  pid_ = -1;
  line_.reset();
  const uint64_t now_ns = MonotonicNs();
  crashes_ = now_ns - started_ns_ < kShortNs ? crashes_ + 1 : 0;
  LogError("the node {}; another one is started, and nobody comes with a ticket meanwhile", DescribeWaitStatus(wait_status));
  start_at_ns_ = now_ns + (kPauseNs << std::min(crashes_, kPausesMax));
  return true;
}

void NodeProcess::Stop() {
  start_at_ns_ = 0;
  line_.reset();
  if (pid_ <= 0) return;
  EndChild(pid_, kEndNs);
  pid_ = -1;
}

}  // namespace tessera
