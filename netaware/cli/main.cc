// The `tessera` command: its command line. Each command is carried out in the file named after it.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "netaware/cli/admin_program.h"
#include "netaware/cli/container_command.h"
#include "netaware/cli/doctor_command.h"
#include "netaware/cli/exit_codes.h"
#include "netaware/cli/found_server.h"
#include "netaware/cli/help_command.h"
#include "netaware/cli/keys_command.h"
#include "netaware/cli/run_command.h"
#include "netaware/cli/sessions_command.h"
#include "netaware/cli/trace_command.h"
#include "netaware/cli/view_command.h"
#include "netaware/job/job_options.h"
#include "netaware/pool/keys_command_line.h"
#include "netaware/pool/placer_options.h"
#include "netaware/pool/pool_command_line.h"
#include "netaware/pool/status_command_line.h"
#include "netaware/trace/trace_command_line.h"
#include "netaware/vgpu/vgpu_command_line.h"
#include "programs/completion.h"
#include "programs/manual.h"
#include "programs/unknown_word.h"
#include "protocol/link/impaired/impaired_link.h"
#include "protocol/link/link_address.h"

namespace tessera {
namespace {

constexpr const char* kFooter = R"(Start a program on a GPU:           tessera run -- ./program --its-options
See why it does not get one:        tessera doctor
Exit codes, environment variables:  tessera run --help)";

constexpr const char* kRunFooter =
    R"(The program, and every process it starts, finds libcuda.so.1 and libnvidia-ml.so.1 of Tessera before any other
(LD_LIBRARY_PATH) and the server's address (TESSERA_SERVER). A process that starts others with an environment of its own must
hand both on. tessera becomes the program: process id, terminal, signals and exit status are the program's own. A private
server ends with it, also when it is killed; processes that outlive it lose their GPU. For a server on another host an agent
is started on this one, which lives as long. With several servers, separated by commas, the program has the devices
of all of them, in this order.

Exit codes, when the program could not be started:
    2  the command line was not understood, or a file of settings
   71  the server's address has an unknown scheme
   72  nobody answers at the server's address
   73  the server may not be used: a socket of another user, a certificate that one side does not accept, or tcp:// beyond this
       host without --insecure
   74  the server is of another version
   75  the private server found no device
   76  a part of the installation is missing or damaged
   77  the private server did not start
   79  there is no such vGPU for this user, or the server has vGPUs alone and none was named
   80  nobody answers at the placer's address, or none is named
   81  the pool has no GPU for such a job, or not for this user
   82  no GPU was free in time (--wait)
   83  the server, or the vGPU, is full, and no place got free in time (--wait)
  126  the program is not executable
  127  the program does not exist

Environment:
  TESSERA_SERVER   the server's address, or several with commas between them, when there is no --server
  TESSERA_PLACER   the placer's address, when there is no --placer; used when no server is named
                   (and before config.toml in ~/.config/tessera and /etc/tessera, which has it and defaults of its options)
  TESSERA_SOCKET_DIR   where the server is looked for that nobody names, and a placer, instead of /run/tessera and $XDG_RUNTIME_DIR
  TESSERA_SERVER_USER   whose servers are used besides root's and this user's, by number or name; any: whoever's
  TESSERA_CERTIFICATE, TESSERA_KEY, TESSERA_AUTHORITY   files for tls://, when there is no --certificate, --key, --authority
  TESSERA_LOG      what the client library logs on stderr: debug, info, warning, error, off
  TESSERA_STATS    1: as --stats; a path: the same as JSON, to this file
  TESSERA_TRACE    a path: each call, its way to the server and the GPU's work, for https://ui.perfetto.dev and 'tessera trace'
  CUDA_VISIBLE_DEVICES and the driver's other variables are applied where the program's session begins, by the server

Examples:
  tessera run -- python train.py
  tessera run --driver emulator --stats -- ./saxpy
  tessera run --server unix:/srv/gpu.sock -- ./program
  tessera run --server tcp://127.0.0.1:4180 -- ./program
  tessera run --server tls://gpu7:4180 -- ./program
  tessera run --gpu-share 0.5 --gpu-mem 20G -- python train.py
  tessera run --server tls://one:4180,tls://two:4180 -- ./program)";

constexpr const char* kDoctorFooter = R"(Exit code: 0 when programs can use a GPU, 1 when a problem was found.)";

constexpr const char* kCompletionFooter = R"(  bash:  source <(tessera completion bash)
  zsh:   tessera completion zsh > "${fpath[1]}/_tessera"
  fish:  tessera completion fish > ~/.config/fish/completions/tessera.fish)";

// Accepts a driver's name, or the path of a library.
std::string CheckDriver(const std::string& driver) {
  if (driver == "auto" || driver == "cuda" || driver == "emulator" || driver.find('/') != std::string::npos) return "";
  return "'" + driver + "' is neither auto, cuda, emulator nor a path";
}

std::string CheckImpairment(const std::string& text) {
  const Result<Impairment> impairment = Impairment::Parse(text);
  return impairment.ok() ? "" : impairment.status().message();
}

void AddOutput(CLI::App* command, std::string* output) {
  command->add_option("-o,--output", *output, "form of the output")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
}

void AddServer(CLI::App* command, std::string* server, LinkOptions* link, const char* otherwise) {
  command
      ->add_option(
          "--server", *server,
          std::string(
              "address of a running tesserad, or of the tessera-gateway of its host; a path alone is unix:PATH, a host alone "
              "tls://HOST:4180 (default: $TESSERA_SERVER, else ") +
              otherwise + ")")
      ->type_name("unix:PATH|" + LinkForms("|") + "[,...]");
  command->add_flag("--insecure", link->insecure,
                    "allow a tcp:// address beyond this host: nothing is encrypted or authenticated there");
  command
      ->add_option("--certificate", link->keys.certificate,
                   "certificate to show at tls:// (default: $TESSERA_CERTIFICATE, else ~/.config/tessera/certificate.pem)")
      ->type_name("FILE");
  command->add_option("--key", link->keys.key, "its private key (default: $TESSERA_KEY, else ~/.config/tessera/key.pem)")
      ->type_name("FILE");
  command
      ->add_option("--authority", link->keys.authority,
                   "certificate of who signed the gateway's (default: $TESSERA_AUTHORITY, else ~/.config/tessera/authority.pem)")
      ->type_name("FILE");
  command
      ->add_option("--connections", link->connections,
                   "connections to a server's host that large copies share (default: 4 where there are 8 cores, else 1)")
      ->type_name("NUMBER")
      ->check(CLI::Range(1U, kConnectionsMax).description("1 to " + std::to_string(kConnectionsMax)));
}

// Adds `help` and `version`, which CommandsAsOptions() replaces, for help, completion and manual pages.
void AddHelp(CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names += (names.empty() ? "" : ",") + command->get_name();
  CLI::App* const help = app.add_subcommand("help", "print what 'tessera COMMAND --help' does");
  help->add_option("command")->type_name("{" + names + "}");
  app.add_subcommand("version", "print the version");
}

// Returns -1, or an exit code: after --help and the like, or after an error, which it prints on stderr.
int Parse(CLI::App& app, std::vector<std::string> words) {
  std::ranges::reverse(words);
  try {
    app.parse(words);
  } catch (const CLI::Success& text_wanted) {
    app.exit(text_wanted);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    const CLI::App* at = app.get_subcommands().empty() ? &app : app.get_subcommands().front();
    const std::string name = at == &app ? "tessera" : "tessera " + at->get_name();
    std::fprintf(stderr, "tessera: %s: see '%s --help'\n", WithNearest(app, error).c_str(), name.c_str());
    return kExitUsage;
  }
  return -1;
}

int Main(int argc, char** argv) {
  CLI::App app{"Runs unmodified CUDA programs on hosts without a GPU.", "tessera"};
  app.set_version_flag("--version", std::string("tessera ") + TESSERA_VERSION, "print the version and exit");
  app.set_help_flag("-h,--help", "print this text and exit");
  app.require_subcommand(1);
  app.footer(kFooter);

  RunOptions run;
  CLI::App* run_command = app.add_subcommand("run", "run a program with the GPUs of a server");
  AddServer(run_command, &run.server, &run.link, "a pool, else one of this host at its default socket, else a private one");
  // For measurements; the agent's README describes it.
  run_command->add_option("--impair", run.link.impair)->check(CheckImpairment)->group("");
  run_command
      ->add_option("--driver", run.driver,
                   "GPU of a private server: the real one, the emulated one, what there is, or a driver library")
      ->type_name("{auto,cuda,emulator}|PATH")
      ->check(CheckDriver)
      ->capture_default_str();
  run_command
      ->add_option(
          "--vgpu", run.vgpus,
          "the vGPU of the server whose share the program gets (default: $TESSERA_VGPU, else what the others leave); NAME+NAME "
          "for one of each of several GPUs; those of several servers separated by commas")
      ->type_name("NAME[+NAME]");
  AddJobOptions(*run_command, &run.job);
  run_command->add_flag("--stats", run.stats, "print calls, round trips and bytes when each process ends");
  run_command->add_flag("-q,--quiet", run.quiet, "do not say which GPU is used, nor that the program cannot use one");
  run_command->add_option("program", run.command, "the program and its arguments, behind --")->required()->type_name("");
  run_command->positionals_at_end();
  run_command->footer(kRunFooter);

  std::vector<std::string> words(argv + 1, argv + argc);
  // `run` skips the descriptions of the other commands, which would be a third of the cost of a program's start here.
  if (!words.empty() && words[0] == "run") {
    const int code = Parse(app, std::move(words));
    return code >= 0 ? code : RunCommand(run);
  }

  // Show a server, or, by tessera-admin, a pool.
  PoolOptions pool;
  ViewOptions view;
  for (CLI::App* const command : {AddStatusCommand(app, &pool), AddTopCommand(app, &pool)})
    AddServer(command, &view.server, &view.link, "a pool, else one of this host at its default socket");

  SessionsOptions sessions;
  CLI::App* const sessions_command = AddSessionsCommand(app, &sessions);
  AddServer(sessions_command, &sessions.server, &sessions.link, "one of this host at its default socket");

  DoctorOptions doctor;
  CLI::App* doctor_command =
      app.add_subcommand("doctor", "look for what keeps programs from using a GPU, and say how to repair it");
  AddServer(doctor_command, &doctor.server, &doctor.link,
            "one of this host at its default socket, else a private one, which is tried out");
  AddOutput(doctor_command, &doctor.output);
  AddPlacerAddress(*doctor_command, &pool);
  doctor_command->add_option("program", doctor.program, "also look whether this program gets Tessera's library")->type_name("");
  doctor_command->footer(kDoctorFooter);

  KeysOptions keys;
  CLI::App* const keys_command = AddKeysCommand(app, &keys);
  std::string keys_placer;
  AddPlacerOfKeys(*keys_command, &keys_placer);

  VgpuOptions vgpu;
  const CLI::App* const vgpu_command = AddVgpuCommand(app, &vgpu);
  TraceOptions trace;
  const CLI::App* const trace_command = AddTraceCommand(app, &trace);
  AddPoolCommands(app, &pool);

  ContainerOptions container;
  AddContainerCommand(app, &container);

  std::string shell;
  CLI::App* completion_command = app.add_subcommand("completion", "print a script that completes tessera's command line");
  completion_command->add_option("shell", shell, "the shell")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion_command->footer(kCompletionFooter);
  AddManual(app, kCommandSection);
  AddHelp(app);

  words = CommandsAsOptions(std::move(words));
  if (const std::string unknown = UnknownCommand(app, words); !unknown.empty()) {
    std::fprintf(stderr, "tessera: %s: see 'tessera --help'\n", unknown.c_str());
    return kExitUsage;
  }
  if (const int code = Parse(app, std::move(words)); code >= 0) return code;
  if (pool.command == "status" || pool.command == "top") return ViewCommand(view, pool, argv);
  if (sessions_command->parsed()) return SessionsCommand(sessions);
  if (doctor_command->parsed()) return DoctorCommand(doctor, pool.placer);
  if (keys_command->parsed() && keys.action == "renew") return BecomeAdminProgram(argv);
  if (keys_command->parsed() && keys_command->get_option("subject")->count() == 0) {
    std::fprintf(stderr, "tessera: subject is required: see 'tessera keys --help'\n");
    return kExitUsage;
  }
  if (keys_command->parsed()) return KeysCommand(keys);
  if (!container.action.empty()) return ContainerCommand(container);
  if (!pool.command.empty()) return BecomeAdminProgram(argv);
  if (trace_command->parsed()) return TraceCommand(trace);
  if (vgpu_command->parsed()) {
    const std::string wrong = CheckVgpuOptions(vgpu);
    if (wrong.empty() && vgpu.server.empty() && vgpu.control.empty() && getenv("TESSERA_CONTROL") == nullptr)
      FoundServer::SetVariable();
    if (wrong.empty()) return BecomeAdminProgram(argv);
    std::fprintf(stderr, "tessera: %s: see 'tessera vgpu --help'\n", wrong.c_str());
    return kExitUsage;
  }
  std::fputs(CompletionScript(app, shell).c_str(), stdout);
  return kExitOk;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
