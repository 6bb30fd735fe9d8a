// tessera-lease: two processes. The started process waits for its child, and ends when the child has the grant. The child does
// the work and starts gRPC's threads.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>

#include "netaware/cli/exit_codes.h"
#include "netaware/lease/job_grant.h"
#include "netaware/lease/options.h"
#include "programs/service_process.h"
#include "protocol/base/log.h"
#include "protocol/base/unique_fd.h"

namespace tessera {
namespace {

constexpr const char* kName = "tessera-lease";

int Work(const LeaseOptions& options, UniqueFd ready) {
  int code = kExitOk;
  {
    JobGrant grant(options);
    code = grant.Run([&](const GrantedJob& job) {
      Announce(nlohmann::json{{"servers", job.servers}, {"tickets", job.tickets}, {"text", job.text}}.dump());
      const char byte = 1;
      if (write(ready.get(), &byte, 1) != 1) LogWarning("the process that waits for the grant has ended");
      ready.reset();
      close(STDOUT_FILENO);
    });
  }
  RemoveOwnDirectory(options, options.listen_path);
  return code;
}

// Runs in the started process. Returns when the worker has the grant, or with the worker's exit code.
int Await(pid_t worker, int ready) {
  char byte = 0;
  ssize_t got = 0;
  while ((got = read(ready, &byte, 1)) < 0 && errno == EINTR) {
  }
  if (got == 1) return kExitOk;
  int status = 0;
  while (waitpid(worker, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kExitServerFailed;
}

int Main(const LeaseOptions& options) {
  signal(SIGPIPE, SIG_IGN);  // the reader of the line may have ended before it is written
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Fail(kName, Status::FromErrno("cannot make a pipe", errno), kExitServerFailed);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t worker = fork();
  if (worker < 0) return Fail(kName, Status::FromErrno("cannot start a process", errno), kExitServerFailed);
  if (worker > 0) {
    write_end.reset();
    return Await(worker, read_end.get());
  }
  read_end.reset();
  return Work(options, std::move(write_end));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  LeaseOptions options;
  if (const int code = ParseOptions(argc, argv, &options); code >= 0) return code;
  SetLogLevel(options.log_level);
  SetLogName(kName);
  return Main(options);
}
