#include "server/daemon/children/worker_environment.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace tessera {
namespace {

// HOME: where the driver keeps what it compiles. The last ones are of sanitizers, which a build of ours may carry.
constexpr std::string_view kNames[] = {"HOME",         "LANG",         "LANGUAGE",     "LD_LIBRARY_PATH",  "LD_PRELOAD",
                                       "TZ",           "TZDIR",        "LOCPATH",      "MALLOC_ARENA_MAX", "GLIBC_TUNABLES",
                                       "LIBCUDA_LOGS", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS",     "UBSAN_OPTIONS"};
constexpr std::string_view kPrefixes[] = {"CUDA_", "CUDBG_", "NVIDIA_", "LC_", "TESSERA_EMULATOR_"};

bool IsForWorkers(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::vector<std::string> WorkerEnvironment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (IsForWorkers(*variable)) variables.emplace_back(*variable);
  }
  return variables;
}

}  // namespace tessera
