#include "programs/service_process.h"

#include <errno.h>
#include <sys/resource.h>

#include <cstdio>
#include <filesystem>

#include "protocol/base/background.h"
#include "protocol/base/log.h"

namespace tessera {

void Announce(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void LeaveForeground(const ServiceOptions& options) {
  if (options.owner_fd >= 0 && !GoToBackground()) LogWarning("the service stays in the foreground: errno {}", errno);
}

int Fail(const char* name, const Status& why, int code) {
  std::fprintf(stderr, "%s: %s.\n", name, why.message().c_str());
  return code;
}

void RemoveOwnDirectory(const ServiceOptions& options, const std::string& socket_path) {
  if (!options.remove_directory) return;
  std::error_code error;
  std::filesystem::remove(std::filesystem::path(socket_path).parent_path(), error);
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace tessera
