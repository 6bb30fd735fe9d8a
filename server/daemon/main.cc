// tesserad: wires the parts. What it prints and how it ends stands in README.md.
#include <unistd.h>

#include <cstdio>

#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"
#include "server/daemon/child_process.h"
#include "server/daemon/device_probe.h"
#include "server/daemon/exit_codes.h"
#include "server/daemon/options.h"
#include "server/daemon/supervisor.h"
#include "server/daemon/worker_process.h"

namespace tessera {
namespace {

int RunDaemon(Options options) {
  Result<DeviceList> devices = ProbeDevices(options.driver, options.log_word);
  if (!devices.ok()) {
    fprintf(stderr, "tesserad: no device to serve: %s.\n", devices.status().message().c_str());
    return kExitNoDevice;
  }
  Result<UnixListener> listener = UnixListener::Bind(options.listen_path);
  if (!listener.ok()) {
    fprintf(stderr, "tesserad: %s.\n", listener.status().message().c_str());
    return kExitCannotListen;
  }
  options.driver = devices->driver;  // `auto` is decided once, for all workers alike
  options.priorities = devices->priorities;
  Supervisor supervisor(options, std::move(listener).value());
  if (const Status status = supervisor.Prepare(); !status.ok()) {
    fprintf(stderr, "tesserad: %s.\n", status.message().c_str());
    return kExitInternal;
  }
  printf("tesserad: listening on unix:%s, devices: %s, driver %s\n", options.listen_path.c_str(),
         DescribeDevices(*devices).c_str(), DescribeVersion(devices->version).c_str());
  fflush(stdout);
  return supervisor.Run();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  Options options;
  if (const int code = ParseOptions(argc, argv, &options); code >= 0) return code;
  SetLogLevel(options.log_level);
  switch (options.role) {
    case Options::Role::kDaemon:
      SetLogName("tesserad");
      return RunDaemon(options);
    case Options::Role::kProbe:
      SetLogName("tesserad probe");
      BecomeChild(options.parent_pid);
      return RunProbe(options.driver, options.probe_fd);
    case Options::Role::kWorker:
      SetLogName("tesserad session " + std::to_string(options.session));
      BecomeChild(options.parent_pid);
      return RunWorkerProcess(options);
  }
  return kExitInternal;
}
