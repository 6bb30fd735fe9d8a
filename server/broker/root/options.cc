#include "server/broker/root/options.h"

#include <fmt/core.h>

#include "programs/service_command_line.h"
#include "protocol/wire/holder.h"
#include "scheduler/policies/policies.h"

namespace tessera {
namespace {

constexpr const char* kFooter =
    R"(tesserad starts it and gives it these options: they are its own as well. GPU is a number in the server's list, or a
UUID (GPU-...). Policies: equal, fair, fixed, priority (scheduler/README.md says what each promises).

Exit codes:
  0  ended after SIGTERM or SIGINT, or with tesserad
  1  a system call failed that should not, or the daemon said what no daemon of this release says
  2  the command line was not understood, or names a GPU that the server does not have)";

}  // namespace

int ParseProgramOptions(int argc, char** argv, ProgramOptions* options) {
  ServiceCommandLine line("tessera-broker", "Decides for one server whose vGPU may use which GPU until when.", kFooter, *options);
  line.app().remove_option(line.app().get_option("--hello-timeout"));  // nobody connects
  std::vector<std::string> policies;
  std::string fallback;
  line.app()
      .add_option("--policy", policies, "How a GPU's time is divided; NAME alone: on all GPUs; once for each")
      ->type_name("[GPU=]NAME")
      ->allow_extra_args(false);
  line.app()
      .add_option("--default", fallback, "none: there is no vGPU for sessions that name none, and requests may add up to 1")
      ->type_name("{none}");
  line.app()
      .add_option("--default-request", options->broker.default_request, "The request of a vGPU whose file states none")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0).description("0 to 1"))
      ->capture_default_str();
  double overrun_after_s = static_cast<double>(options->broker.overrun_after_ns) / 1e9;
  line.app()
      .add_option("--overrun-after", overrun_after_s,
                  "How long a session of a vGPU with overrun = end may run beyond its tokens while others wait")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0).description("0.1 to 3600"))
      ->capture_default_str();
  line.app()
      .add_option("--record", options->broker.record,
                  "Write down all that is decided, for tessera-replay; FILE.N for each GPU of several")
      ->type_name("FILE");
  line.app()
      .add_option("--admin", options->broker.administrators,
                  "Who changes vGPUs by the control API: uid:N or name:X; once for each")
      ->type_name("HOLDER")
      ->allow_extra_args(false);
  line.app().add_option("--control-fd", options->control_fd)->group("");
  line.app().add_option("--names-fd", options->names_fd)->group("");
  line.app().add_option("--metrics-fd", options->metrics_fd)->group("");
  line.app().add_option("--usage-line-fd", options->usage_line_fd)->group("");
  line.app().add_option("--usage-fd", options->usage_fd)->group("");
  line.app().add_option("--opened-fd", options->opened_fd)->group("");
  line.app().add_option("--usage-directory", options->usage_directory)->group("");
  line.app().add_option("--usage-days", options->usage_days)->group("");
  line.app().add_option("--restarts", options->restarts)->group("");
  line.app().add_option("--control-tls-fd", options->control_tls_fd)->group("");
  line.app().add_option("--line-fd", options->line_fd)->group("");
  line.app().add_option("--parent-pid", options->parent_pid)->group("");
  std::string sandbox = "off";
  line.app().add_option("--sandbox", sandbox)->group("");
  line.app().add_flag("--machine-root", options->machine_root)->group("");
  if (const int code = line.Parse(argc, argv); code >= 0) return code;
  if (!ParseSandboxMode(sandbox, &options->sandbox)) return line.Refuse("--sandbox takes no '" + sandbox + "'");
  options->broker.overrun_after_ns = static_cast<int64_t>(overrun_after_s * 1e9);
  for (const std::string& word : policies) {
    const size_t equals = word.rfind('=');
    const std::string name = word.substr(equals == std::string::npos ? 0 : equals + 1);
    if (const auto policy = MakePolicy(name); !policy.ok())
      return line.Refuse(fmt::format("--policy {}: {}", word, policy.status().message()));
    options->broker.policies.push_back({equals == std::string::npos ? "" : word.substr(0, equals), name});
  }
  if (!fallback.empty() && fallback != "none") return line.Refuse(fmt::format("--default takes none, not '{}'", fallback));
  options->broker.has_default = fallback.empty();
  for (const std::string& holder : options->broker.administrators) {
    if (!IsHolder(holder) || holder == kAnonymousHolder)
      return line.Refuse(fmt::format("--admin takes uid:N or name:X, not '{}'", holder));
  }
  if (options->usage_fd >= 0) return -1;
  if (options->line_fd < 0) return line.Refuse("tesserad starts this program, with --line-fd");
  return -1;
}

}  // namespace tessera
