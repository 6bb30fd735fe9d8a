#include "server/daemon/driver_trial.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "protocol/base/log.h"
#include "server/daemon/children/child_process.h"
#include "server/daemon/children/child_report.h"
#include "server/daemon/children/exit_codes.h"
#include "server/daemon/children/worker_environment.h"
#include "server/daemon/worker_sandbox.h"
#include "server/driver/trial.h"

namespace tessera {
namespace {

constexpr size_t kRememberedMax = 16;

// What the outcome depends on; empty: unknown.
std::string KeyOf(const DeviceList& devices) {
  struct stat file {};
  utsname system{};
  if (stat(devices.file.c_str(), &file) != 0 || uname(&system) != 0) return "";
  return fmt::format("{} {} {}.{:09} Linux {} filter {:016x}", devices.file, file.st_size, file.st_mtim.tv_sec,
                     file.st_mtim.tv_nsec, system.release, CallFilterVersion());
}

std::string RecordOf(const Options& options) {
  return options.cache_directory.empty() ? "" : options.cache_directory + "/driver-trials";
}

// The keys of drivers that work under kAllowList, the latest first.
std::vector<std::string> ReadRecord(const Options& options) {
  std::vector<std::string> lines;
  std::ifstream record(RecordOf(options));
  for (std::string line; lines.size() < kRememberedMax && std::getline(record, line);) lines.push_back(line);
  return lines;
}

void Remember(const Options& options, const std::string& key) {
  const std::string record = RecordOf(options);
  if (record.empty() || key.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options.cache_directory, error);
  const std::string written = record + "." + std::to_string(getpid());
  {
    std::ofstream file(written);
    file << key << '\n';
    for (const std::string& line : ReadRecord(options)) {
      if (line != key) file << line << '\n';
    }
  }
  std::filesystem::rename(written, record, error);
  if (error) std::filesystem::remove(written, error);
}

// `more`: words of the command line that say in what sandbox.
Status TryIn(const std::vector<std::string>& more, const DeviceList& devices, const Options& options) {
  std::vector<std::string> arguments = {
      "--driver",      devices.driver,      "--log",         options.log_word,
      "--worker-user", options.worker_user, "--worker-root", options.private_root ? "private" : "machine"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  if (!options.worker_uids.empty()) {
    arguments.insert(arguments.end(), {"--worker-uid", std::to_string(options.worker_uids.first)});
  }
  const Result<std::string> report = ReportOfChild(kTrialLogName, "--trial-fd", arguments, WorkerEnvironment());
  if (!report.ok()) return report.status();
  return report.value() == "ok" ? Status::Ok() : Status(StatusCode::kUnavailable, report.value());
}

}  // namespace

TrialResult TryDriverInSandbox(const DeviceList& devices, const Options& options) {
  const std::string key = KeyOf(devices);
  const std::vector<std::string> known = ReadRecord(options);
  if (!key.empty() && std::find(known.begin(), known.end(), key) != known.end()) return {};
  const Status allowed = TryIn({"--calls", "allow"}, devices, options);
  if (allowed.ok()) {
    Remember(options, key);
    return {};
  }
  if (TryIn({"--calls", "refuse"}, devices, options).ok()) {
    return {WorksWhere::kUnderRefusingList,
            fmt::format("the driver {} makes system calls that the filter of workers does not let through ({})", devices.file,
                        allowed.message())};
  }
  const Status outside = TryIn({"--sandbox", "off"}, devices, options);
  if (outside.ok()) {
    return {WorksWhere::kOutside, fmt::format("the driver {} does not do in the sandbox of workers what sessions need ({})",
                                              devices.file, allowed.message())};
  }
  return {WorksWhere::kNowhere,
          fmt::format("the driver {} does not work here, in a sandbox or without one ({}): its GPU may be full, lost or kept by "
                      "another process. See what nvidia-smi says, end what uses it, and start tesserad again",
                      devices.file, outside.message())};
}

int ChooseCallFilter(const DeviceList& devices, Options* options) {
  if (options->sandbox == SandboxMode::kOff || options->sandbox == SandboxMode::kLog) return kServiceOk;
  const TrialResult result = TryDriverInSandbox(devices, *options);
  if (result.works == WorksWhere::kUnderRefusingList) options->calls = CallFilter::kRefusingList;
  if (result.problem.empty()) return kServiceOk;
  const bool nowhere = result.works == WorksWhere::kNowhere;
  if (options->sandbox == SandboxMode::kRequire) {
    if (nowhere) {
      fprintf(stderr, "tesserad: no device to serve: %s.\n", result.problem.c_str());
      return kExitNoDevice;
    }
    fprintf(stderr, "tesserad: no sandbox for workers: %s. See which with --sandbox log, or start with --sandbox auto.\n",
            result.problem.c_str());
    return kExitNoSandbox;
  }
  // A private server works for the user who started it alone.
  const LogLevel level = options->owner_fd >= 0 ? LogLevel::kInfo : nowhere ? LogLevel::kError : LogLevel::kWarning;
  const std::string more =
      result.works == WorksWhere::kUnderRefusingList ? ": they may make every call but those that are known to reach others" : "";
  Log(level, "{}{}{}", nowhere ? "no session will work: " : "the sandbox of workers is not complete: ", result.problem, more);
  return kServiceOk;
}

int RunTrial(const Options& options) {
  setenv("CUDA_CACHE_DISABLE", "1", 1);  // it shall compile
  const Result<std::unique_ptr<Driver>> driver = LoadChosenDriver(options.driver);
  Status status = driver.ok() ? EnterWorkerSandbox(options, *driver.value()) : driver.status();
  if (status.ok()) status = TryDriver(driver.value()->table());
  const bool written = WriteReport(options.trial_fd, status.ok() ? "ok" : status.message());
  // Without destructors: a driver that was loaded has threads of its own.
  _exit(written ? kServiceOk : kServiceInternal);
}

}  // namespace tessera
