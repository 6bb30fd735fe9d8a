#include "protocol/cli/service_options.h"

#include <sys/resource.h>

#include <cstdio>
#include <filesystem>

namespace tessera {

std::string UnixPathOf(std::string_view url) {
  constexpr std::string_view kScheme = "unix:";
  return url.starts_with(kScheme) ? std::string(url.substr(kScheme.size())) : std::string();
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
