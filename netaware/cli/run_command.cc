#include "netaware/cli/run_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <vector>

#include "netaware/cli/exit_codes.h"
#include "netaware/cli/found_server.h"
#include "netaware/cli/install_layout.h"
#include "netaware/cli/pool_job.h"
#include "netaware/cli/private_server.h"
#include "netaware/cli/program_file.h"
#include "netaware/cli/program_reach.h"
#include "netaware/cli/server_check.h"
#include "netaware/cli/server_list.h"
#include "netaware/job/job_config.h"
#include "netaware/job/placer_path.h"
#include "protocol/link/link_address.h"
#include "protocol/link/typed_address.h"

namespace tessera {
namespace {

void PrependPath(const char* variable, const std::string& directory) {
  const char* present = getenv(variable);
  setenv(variable, (present != nullptr && *present != '\0' ? directory + ":" + present : directory).c_str(), 1);
}

// What the loaders of known frameworks look at, besides LD_LIBRARY_PATH, to find the driver.
void SetEnvironment(const InstallLayout& layout, const std::string& server, const std::string& names, const std::string& vgpus,
                    const std::string& tickets, uint64_t wait_ms, bool stats) {
  setenv("TESSERA_SERVER", server.c_str(), 1);
  // What the user calls them, for sentences: behind an agent they have another address here.
  if (names != server && !names.empty()) {
    setenv("TESSERA_SERVER_NAMES", names.c_str(), 1);
  } else {
    unsetenv("TESSERA_SERVER_NAMES");
  }
  if (!vgpus.empty()) setenv("TESSERA_VGPU", vgpus.c_str(), 1);
  if (!tickets.empty()) {
    setenv("TESSERA_TICKET", tickets.c_str(), 1);
    unsetenv("TESSERA_VGPU");  // the tickets say which
  } else {
    unsetenv("TESSERA_TICKET");
  }
  setenv("TESSERA_WAIT_MS", std::to_string(wait_ms).c_str(), 1);
  PrependPath("LD_LIBRARY_PATH", layout.client_dir);
  setenv("TRITON_LIBCUDA_PATH", layout.client_dir.c_str(), 1);                    // Triton links against it
  setenv("NUMBA_CUDA_DRIVER", (layout.client_dir + "/libcuda.so.1").c_str(), 1);  // Numba loads by path
  // Files that are younger are of this run (client-stub/process/process_file.h); a run within a run belongs to the outer one.
  timespec now = {};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  const std::string begun =
      std::to_string(static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec));
  setenv("TESSERA_RUN_BEGUN", begun.c_str(), 0);
  if (stats) setenv("TESSERA_STATS", "1", 1);
}

int NotStarted(const std::string& program, int error) {
  if (error == ENOENT) {
    return Refuse({kExitCommandNotFound, "the program " + program +
                                             " cannot be started: it or the interpreter it names does not exist; check the "
                                             "path, or install it"});
  }
  if (error == EISDIR)
    return Refuse({kExitNotExecutable, program + " is a directory and no program: name the program that is to be started"});
  return Refuse({kExitNotExecutable, "the program " + program + " cannot be started: " + std::strerror(error) +
                                         "; check that it is an executable file for this machine (chmod +x)"});
}

// Of a program that will find no GPU, or the wrong one: it is started nevertheless, since what it starts may find one.
void WarnOfUnreached(const std::string& program) {
  const std::optional<MachineCode> code = MachineCode::Of(program);
  const std::optional<Unreached> why = code ? WhyUnreached(*code) : std::nullopt;
  if (why) std::fprintf(stderr, "tessera: this program gets no GPU from here: %s; %s\n", why->text.c_str(), why->advice.c_str());
}

}  // namespace

int RunCommand(const RunOptions& options) {
  const Result<InstallLayout> layout = InstallLayout::Find();
  if (!layout.ok()) return Refuse({kExitMissingLibrary, layout.status().message()});
  const std::string& name = options.command.front();
  const bool is_path = name.find('/') != std::string::npos;
  bool startable = false;
  const std::string program = is_path ? name : FindProgram(name, &startable);
  const int wrong = program.empty() ? ENOENT : startable ? 0 : WhyNotStartable(program);
  if (wrong == ENOENT || wrong == ENOTDIR) {
    return Refuse({kExitCommandNotFound, "the program " + name + " does not exist" +
                                             (is_path ? "" : " in the directories of PATH") + ": check its name, or install it"});
  }
  if (wrong != 0) return NotStarted(program, wrong);

  std::string server = options.server;
  std::string names;
  std::string tickets;
  if (server.empty() && options.driver == "auto") {
    if (const char* configured = getenv("TESSERA_SERVER")) server = configured;
    // Of the job that this program is a part of.
    if (const char* configured = getenv("TESSERA_TICKET"); configured != nullptr && !server.empty()) tickets = configured;
  }
  if (options.job.asks() || !options.job.placer.empty()) {
    if (!server.empty()) {
      return Refuse({kExitUsage, "a placer finds the GPUs of --gpu-share and its like, and the server " + server +
                                     " is named besides: leave --server (TESSERA_SERVER) out, or these options"});
    }
    if (options.driver != "auto" || !options.vgpus.empty()) {
      return Refuse({kExitUsage, "a placer finds the GPUs of --gpu-share and its like: leave --driver and --vgpu out"});
    }
  }
  // For a place at a server that is full; a pool has its own meaning of it.
  const auto wait_ms = static_cast<uint64_t>(options.job.wait_ms.value_or(0));
  std::string text;
  LinkOptions link = options.link;
  if (server.empty() && options.driver == "auto" && options.vgpus.empty()) {
    const Result<JobConfig> config = JobConfig::Read();
    if (!config.ok()) return Refuse({kExitUsage, config.status().message()});
    JobOptions asked = options.job;
    config.value().Complete(&asked);
    const std::string placer = FindPlacer(asked.placer);
    if (placer.empty() && options.job.asks()) {
      return Refuse({kExitNoPlacer,
                     "no placer is named that finds GPUs of a pool: give --placer, set TESSERA_PLACER, write it "
                     "into config.toml, or start tessera-placer"});
    }
    if (!placer.empty()) {
      config.value().CompleteKeys(&link.keys.certificate, &link.keys.key, &link.keys.authority);
      PoolJob job;
      const ServerProblem problem = PoolJob::Start(layout.value(), placer, asked, link, &job);
      if (problem.exit_code != kExitOk) return Refuse(problem);
      server = job.servers;
      tickets = job.tickets;
      text = job.text;
    }
  }
  FoundServer found;
  if (server.empty() && options.driver == "auto") {
    found = FoundServer::Find();
    server = found.url;
  }
  // A way without a link would be measured as one that is not impaired.
  if (!options.link.impair.empty() && !HasLinkScheme(AddressMeantBy(server))) {
    return Refuse(
        {kExitUsage, "--impair makes a link worse, and there is none to '" + server + "': give --server " + LinkForms()});
  }
  std::string vgpus = options.vgpus;
  // Tickets say which.
  if (const char* configured = getenv("TESSERA_VGPU"); vgpus.empty() && tickets.empty() && configured != nullptr)
    vgpus = configured;
  if (server.empty() && !vgpus.empty()) {
    return Refuse(
        {kExitVgpu,
         "the vGPU " + vgpus + " is a share of a server's GPU, and there is no server: name it with --server or TESSERA_SERVER"});
  }
  if (server.empty()) {
    PrivateServer own;
    const ServerProblem problem = PrivateServer::Start(layout.value().daemon, options.driver, &own);
    if (problem.exit_code != kExitOk) return Refuse(problem);
    server = own.url;
    const std::string but = found.closed.empty() ? "" : "; the server " + found.closed + " is not for this user (--socket-group)";
    if (!options.quiet) std::fprintf(stderr, "tessera: private server, %s%s\n", own.description.c_str(), but.c_str());
  } else {
    std::vector<ReachedServer> reached;
    const ServerProblem problem = ReachServers(server, link, ServerQuery::Ask::kBegin, &reached, vgpus, tickets, wait_ms);
    if (problem.exit_code != kExitOk) return Refuse(problem);
    server.clear();
    for (const ReachedServer& one : reached) {
      if (vgpus.empty() && tickets.empty() && one.report.needs_vgpu) {
        return Refuse(
            {kExitVgpu, "the server " + one.address.url +
                            " shares its GPUs as vGPUs alone: name one of them with --vgpu (tessera status shows them)"});
      }
      server += (server.empty() ? "" : ",") + one.address.local_url;
      names += (names.empty() ? "" : ",") + one.address.url;
    }
    if (!found.url.empty() && !options.quiet) found.Say();
  }

  if (!text.empty() && !options.quiet) std::fprintf(stderr, "tessera: %s\n", text.c_str());
  if (!options.quiet) WarnOfUnreached(program);
  SetEnvironment(layout.value(), server, names, vgpus, tickets, wait_ms, options.stats);
  std::vector<char*> argv;
  for (const std::string& word : options.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  // A script that names no interpreter is the shell's, as with execvp(); a program for another machine is nobody's here.
  const int error = errno;
  if (error == ENOEXEC && !IsElf(program)) execvp(argv[0], argv.data());
  return NotStarted(program, error);
}

}  // namespace tessera
