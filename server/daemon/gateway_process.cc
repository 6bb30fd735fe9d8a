#include "server/daemon/gateway_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>

#include "protocol/base/printable.h"
#include "server/daemon/children/child_process.h"

namespace tessera {

Result<GatewayProcess> GatewayProcess::Start(const std::string& address, const Options& options, ChildLogs& logs) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (self.parent_path() / "tessera-gateway").string();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status::FromErrno("cannot make a pipe to the gateway", errno);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  std::vector<std::string> arguments = {"--listen",        address,
                                        "--server",        "unix:" + options.listen_path,
                                        "--log",           options.log_word,
                                        "--hello-timeout", std::to_string(options.hello_timeout_s),
                                        "--parent-pid",    std::to_string(getpid()),
                                        "--ready-fd",      std::to_string(kPassedFd)};
  arguments.insert(arguments.end(), {"--resume-grace", std::to_string(options.resume_grace_s)});
  arguments.insert(arguments.end(), {"--max-sessions", std::to_string(options.sessions_max), "--server-counts"});
  arguments.insert(arguments.end(), {"--sandbox", options.sandbox_word});
  if (!options.private_root) arguments.emplace_back("--machine-root");
  for (std::string& word : LinkArguments(options.link)) arguments.push_back(std::move(word));
  Result<pid_t> pid = logs.Start(program, program, "tessera-gateway", arguments, {write_end.get()});
  if (!pid.ok()) return Status(StatusCode::kNotFound, program + ": " + pid.status().message() + "; install it again");
  write_end.reset();
  // It writes its address, its release and who may connect in one piece and closes the pipe, or closes it when it ends.
  pollfd ready = {read_end.get(), POLLIN, 0};
  while (poll(&ready, 1, static_cast<int>(options.ready_timeout_ns() / 1'000'000)) < 0 && errno == EINTR) {
  }
  char url[512];
  const ssize_t got = ready.revents == 0 ? 0 : read(read_end.get(), url, sizeof(url));
  logs.Relay();
  if (ready.revents == 0) {
    kill(*pid, SIGTERM);
    return NotReadyInTime("tessera-gateway at " + address, options.ready_timeout_s);
  }
  if (got <= 0) return Status(StatusCode::kUnavailable, "no gateway at " + address);
  std::string_view said(url, static_cast<size_t>(got));
  const auto next_line = [&] {
    const std::string line(said.substr(0, said.find('\n')));
    said.remove_prefix(std::min(said.size(), line.size() + 1));
    return line;
  };
  GatewayProcess gateway{*pid, next_line(), ""};
  // One that says none is older than those that do.
  const std::string release = next_line();
  gateway.who = next_line();
  if (release == TESSERA_VERSION) return gateway;
  kill(*pid, SIGTERM);
  return Status(
      StatusCode::kVersionMismatch,
      "tessera-gateway is of " +
          (release.empty() || release.find(' ') != std::string::npos ? "an older release" : "release " + Printable(release)) +
          ", this server of " + TESSERA_VERSION + ": install the same release of both");
}

}  // namespace tessera
