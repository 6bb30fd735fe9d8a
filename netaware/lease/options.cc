#include "netaware/lease/options.h"

#include <filesystem>

#include "programs/service_command_line.h"

namespace tessera {

std::string LeaseOptions::directory() const { return std::filesystem::path(listen_path).parent_path().string(); }

int ParseOptions(int argc, char** argv, LeaseOptions* options) {
  ServiceCommandLine line("tessera-lease", "Has the grant of one job: 'tessera run' starts it.",
                          "It works for the process that --owner-fd names, in whose private directory it writes tickets.",
                          *options);
  CLI::App& app = line.app();
  std::string listen;
  app.add_option("--listen", listen, "a path in the directory of the job")->type_name("unix:PATH");
  AddJobOptions(app, &options->job);
  line.AddLinkOptions(&options->link, false);
  line.AddOwner();
  if (const int code = line.Parse(argc, argv); code >= 0) return code;
  options->listen_path = UnixPathOf(listen);
  if (options->listen_path.empty() || options->owner_fd < 0 || options->job.placer.empty()) {
    return line.Refuse("this program is started by 'tessera run --gpu-share SHARE -- PROGRAM'");
  }
  return -1;
}

}  // namespace tessera
