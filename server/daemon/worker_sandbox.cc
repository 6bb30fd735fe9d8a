#include "server/daemon/worker_sandbox.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "protocol/base/log.h"
#include "server/daemon/children/child_process.h"
#include "server/daemon/children/exit_codes.h"
#include "server/sandbox/sandbox.h"
#include "server/sandbox/service_sandbox.h"

namespace tessera {
namespace {

WorkerUser OwnUser(uid_t uid) { return {std::to_string(uid), uid, static_cast<gid_t>(uid), true}; }

// The sandbox, without what only a worker knows. `*problem`: a sentence when there is no such user.
SandboxOptions SandboxOf(const Options& options, std::string* problem) {
  SandboxOptions sandbox;
  sandbox.mode = options.sandbox;
  sandbox.private_root = options.private_root;
  sandbox.calls = options.calls;
  sandbox.shared_memory = options.shared_memory;
  if (geteuid() != 0 || options.sandbox == SandboxMode::kOff) return sandbox;
  if (options.worker_uid != 0) {
    sandbox.user = OwnUser(options.worker_uid);
  } else if (!options.worker_uids.empty()) {
    sandbox.user = OwnUser(options.worker_uids.first);
  } else if (Result<WorkerUser> user = FindWorkerUser(options.worker_user); user.ok()) {
    sandbox.user = std::move(user).value();
  } else {
    *problem = user.status().message();
  }
  return sandbox;
}

// Where the driver has its libraries, besides the system's own directories.
std::vector<std::string> LibraryDirectories(const Driver& driver) {
  std::vector<std::string> directories;
  std::error_code none;
  const std::filesystem::path file = std::filesystem::canonical(driver.path(), none);
  if (!file.empty()) directories.push_back(file.parent_path());
  const char* searched = getenv("LD_LIBRARY_PATH");
  std::istringstream list(searched == nullptr ? "" : searched);
  for (std::string directory; std::getline(list, directory, ':');) {
    if (directory.starts_with('/')) directories.push_back(directory);
  }
  return directories;
}

}  // namespace

uid_t UserOfWorkers(const Options& options) {
  std::string problem;
  const SandboxOptions sandbox = SandboxOf(options, &problem);
  return sandbox.user && !options.workers_keep_user ? sandbox.user->uid : geteuid();
}

SandboxReport InspectWorkerSandbox(const Options& options) {
  std::string problem;
  SandboxReport report = InspectSandbox(SandboxOf(options, &problem));
  if (!problem.empty()) report.gaps.insert(report.gaps.begin(), problem);
  return report;
}

SandboxReport InspectServiceSandbox(const Options& options) {
  return InspectSandbox(ServiceSandbox(Service::kBroker, options.sandbox, options.private_root));
}

KeeperSandbox SandboxOfImageKeeper(const Options& options) {
  SandboxOptions sandbox =
      ServiceSandbox(Service::kImageKeeper, options.sandbox, options.private_root, {options.image_directory});
  const bool refuses = options.sandbox == SandboxMode::kAuto || options.sandbox == SandboxMode::kRequire;
  const bool other_user = geteuid() == 0 && refuses && InspectSandbox(sandbox).other_user;
  const auto user = static_cast<uid_t>(Service::kImageKeeper);
  return {.own_user = user, .user = other_user ? user : 0, .enter = [sandbox] { return EnterSandbox(sandbox); }};
}

bool CheckWorkerSandbox(Options* options) {
  if (options->sandbox == SandboxMode::kOff) return true;
  SandboxReport report = InspectWorkerSandbox(*options);
  const SandboxReport services = InspectServiceSandbox(*options);
  // What workers lack too is told of them.
  if (report.gaps.empty()) report.gaps = services.gaps;
  if (!report.gaps.empty() && options->sandbox == SandboxMode::kRequire) {
    fprintf(stderr, "tesserad: no sandbox for workers: %s. Repair that, or start with --sandbox auto.\n",
            report.gaps.front().c_str());
    return false;
  }
  options->private_root = report.private_root;
  options->workers_keep_user = !report.other_user;
  // A private server works for the user who started it alone.
  const LogLevel level = options->owner_fd >= 0 ? LogLevel::kInfo : LogLevel::kWarning;
  for (const std::string& gap : report.gaps) Log(level, "the sandbox of workers is not complete: {}", gap);
  if (options->sandbox != SandboxMode::kLog)
    LogInfo("the sandbox of workers: {}; of services: {}", report.protection, services.protection);
  return true;
}

Status EnterWorkerSandbox(const Options& options, const Driver& driver) {
  std::string problem;
  SandboxOptions sandbox = SandboxOf(options, &problem);
  sandbox.library_directories = LibraryDirectories(driver);
  RETURN_IF_ERROR(EnterSandbox(sandbox));
  BecomeChild(options.parent_pid);  // a change of the user made the kernel forget it
  return Status::Ok();
}

}  // namespace tessera
