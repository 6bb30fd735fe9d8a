#include "server/daemon/options.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <string_view>

#include "server/daemon/exit_codes.h"

namespace tessera {
namespace {

constexpr std::string_view kScheme = "unix:";

}  // namespace

int ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app("tesserad: runs the GPU work of Tessera clients on this machine.");
  app.set_version_flag("--version", std::string("tesserad ") + TESSERA_VERSION);
  std::string listen;
  app.add_option("--listen", listen, "Where clients connect: unix:PATH (the socket gets mode 0600)")->type_name("unix:PATH");
  app.add_option("--driver", options->driver,
                 "The driver: cuda (libcuda.so.1), emulator (a GPU in software), the path of a library, or auto "
                 "(cuda when it has a device, else emulator)")
      ->type_name("auto|cuda|emulator|PATH")
      ->capture_default_str();
  app.add_option("--log", options->log_word, "What to log on stderr: debug, info, warning, error or off")
      ->type_name("LEVEL")
      ->capture_default_str();
  app.add_option("--max-sessions", options->sessions_max, "Sessions at once; more clients are turned away")
      ->check(CLI::Range(1U, 4096U))
      ->capture_default_str();
  app.add_option("--grace", options->grace_s,
                 "Seconds that sessions get to end by themselves after SIGTERM or SIGINT, before they are ended")
      ->check(CLI::Range(0U, 86400U))
      ->capture_default_str();
  app.add_option("--worker-fd", options->worker_fd)->group("");
  app.add_option("--probe-fd", options->probe_fd)->group("");
  app.add_option("--session", options->session)->group("");
  app.add_option("--parent-pid", options->parent_pid)->group("");
  app.add_option("--priorities", options->priorities)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    app.exit(success, std::cout, std::cerr);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    std::cerr << "tesserad: " << error.what() << ". See tesserad --help.\n";
    return kExitUsage;
  }
  if (!ParseLogLevel(options->log_word, &options->log_level)) {
    std::cerr << "tesserad: --log takes debug, info, warning, error or off, not '" << options->log_word << "'.\n";
    return kExitUsage;
  }
  if (options->worker_fd >= 0) {
    options->role = Options::Role::kWorker;
    return -1;
  }
  if (options->probe_fd >= 0) {
    options->role = Options::Role::kProbe;
    return -1;
  }
  if (listen.empty()) {
    std::cerr << "tesserad: --listen unix:PATH is required. See tesserad --help.\n";
    return kExitUsage;
  }
  if (!listen.starts_with(kScheme) || listen.size() == kScheme.size()) {
    std::cerr << "tesserad: cannot listen on '" << listen << "': --listen takes unix:PATH.\n";
    return kExitUsage;
  }
  options->listen_path = listen.substr(kScheme.size());
  return -1;
}

}  // namespace tessera
