#include "server/daemon/gateway_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>

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
  arguments.insert(arguments.end(), {"--sandbox", options.sandbox_word});
  if (!options.private_root) arguments.emplace_back("--machine-root");
  for (std::string& word : LinkArguments(options.link)) arguments.push_back(std::move(word));
  Result<pid_t> pid = logs.Start(program, program, "tessera-gateway", arguments, {write_end.get()});
  if (!pid.ok()) return Status(StatusCode::kNotFound, program + ": " + pid.status().message() + "; install it again");
  write_end.reset();
  // It writes its address, and who may connect, in one piece and closes the pipe, or closes it when it ends.
  pollfd ready = {read_end.get(), POLLIN, 0};
  while (poll(&ready, 1, kReadyTimeoutMs) < 0 && errno == EINTR) {
  }
  char url[512];
  const ssize_t got = ready.revents == 0 ? 0 : read(read_end.get(), url, sizeof(url));
  logs.Relay();
  if (got <= 0) return Status(StatusCode::kUnavailable, "no gateway at " + address);
  const std::string_view said(url, static_cast<size_t>(got));
  const size_t end = said.find('\n');
  return GatewayProcess{*pid, std::string(said.substr(0, end)),
                        end == std::string_view::npos ? "" : std::string(said.substr(end + 1))};
}

}  // namespace tessera
