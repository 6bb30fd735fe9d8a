#include "netaware/cli/run_command.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "netaware/cli/exit_codes.h"
#include "netaware/cli/install_layout.h"
#include "netaware/cli/private_server.h"
#include "netaware/cli/server_check.h"

namespace tessera {
namespace {

int Refuse(int code, const std::string& sentence) {
  std::fprintf(stderr, "tessera: %s\n", sentence.c_str());
  return code;
}

void PrependPath(const char* variable, const std::string& directory) {
  const char* present = getenv(variable);
  setenv(variable, (present != nullptr && *present != '\0' ? directory + ":" + present : directory).c_str(), 1);
}

// What the loaders of known frameworks look at, besides LD_LIBRARY_PATH, to find the driver.
void SetEnvironment(const InstallLayout& layout, const std::string& server, bool stats) {
  setenv("TESSERA_SERVER", server.c_str(), 1);
  PrependPath("LD_LIBRARY_PATH", layout.client_dir);
  setenv("TRITON_LIBCUDA_PATH", layout.client_dir.c_str(), 1);                         // Triton links against it
  setenv("NUMBA_CUDA_DRIVER", (layout.client_dir + "/libcuda.so.1").c_str(), 1);       // Numba loads by path
  if (stats) setenv("TESSERA_STATS", "1", 1);
}

pid_t child_pid = -1;

void Forward(int number) {
  if (child_pid > 0) kill(child_pid, number);
}

[[noreturn]] void Exec(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int error = errno;
  std::fprintf(stderr, "tessera: %s cannot be started: %s\n", argv[0], std::strerror(error));
  _exit(error == ENOENT ? kExitCommandNotFound : kExitNotExecutable);
}

int WaitFor(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return kExitInternal;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int RunCommand(const RunOptions& options) {
  const Result<InstallLayout> layout = InstallLayout::Find();
  if (!layout.ok()) return Refuse(kExitMissingLibrary, layout.status().message());

  std::string server = options.server;
  if (server.empty() && options.driver == "auto") {
    if (const char* configured = getenv("TESSERA_SERVER")) server = configured;
  }
  std::optional<PrivateServer> own;
  if (server.empty()) {
    Result<PrivateServer> started = PrivateServer::Start(layout.value().daemon, options.driver);
    if (!started.ok()) {
      const bool no_device = started.status().code() == StatusCode::kNotFound;
      return Refuse(no_device ? kExitNoDevice : kExitServerFailed, started.status().message());
    }
    own.emplace(std::move(started).value());
    server = own->url();
    if (!options.quiet) std::fprintf(stderr, "tessera: private server, %s\n", own->description().c_str());
  } else if (const ServerProblem problem = CheckServer(server); problem.exit_code != kExitOk) {
    return Refuse(problem.exit_code, problem.sentence);
  }

  SetEnvironment(layout.value(), server, options.stats);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    struct sigaction action {};
    action.sa_handler = Forward;
    action.sa_flags = SA_RESTART;
    // The terminal sends SIGINT and SIGQUIT to the program itself, which is in the same process group.
    if (number == SIGINT || number == SIGQUIT) action.sa_handler = [](int) {};
    sigaction(number, &action, nullptr);
  }
  child_pid = fork();
  if (child_pid < 0) return Refuse(kExitInternal, std::string("the program cannot be started: ") + std::strerror(errno));
  if (child_pid == 0) Exec(options.command);
  return WaitFor(child_pid);
}

}  // namespace tessera
