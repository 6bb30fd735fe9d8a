#include "client-stub/config.h"

#include <sys/un.h>

#include <cstdlib>
#include <cstring>

namespace tessera {
namespace {

// Variables that libcuda.so.1 itself reads (CUDA C Programming Guide, "CUDA Environment Variables").
// CUDA_VISIBLE_DEVICES travels by itself; those that name files or tools of the client's machine (core dumps,
// injection, MPS pipes) do not.
constexpr const char* kForwardedVariables[] = {
    "CUDA_AUTO_BOOST",
    "CUDA_BINARY_LOADER_THREAD_COUNT",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_CACHE_PATH",
    "CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION",
    "CUDA_DISABLE_JIT",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_ENABLE_CUDA_MODULE_LAZY_LOADING",
    "CUDA_FORCE_JIT",
    "CUDA_FORCE_PRELOAD_LIBRARIES",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_GRAPHS_USE_NODE_PRIORITY",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_DATA_LOADING",
    "CUDA_MODULE_LOADING",
    "CUDA_SCALE_LAUNCH_QUEUES",
};

bool IsTrue(const char* value) {
  return value != nullptr && std::atoi(value) != 0;
}

std::string OrEmpty(const char* value) {
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

Config ParseConfig(const char* (*get)(const char* name)) {
  Config config;
  config.server = OrEmpty(get("TESSERA_SERVER"));
  if (const char* level = get("TESSERA_LOG"); level != nullptr && *level != '\0') {
    if (!ParseLogLevel(level, &config.log_level)) config.bad_log_level = level;
  }
  config.stats = OrEmpty(get("TESSERA_STATS"));
  if (config.stats == "0") config.stats.clear();
  config.launch_blocking = IsTrue(get("CUDA_LAUNCH_BLOCKING")) || IsTrue(get("TESSERA_LAUNCH_BLOCKING"));
  config.eager_module_loading = OrEmpty(get("CUDA_MODULE_LOADING")) == "EAGER";
  if (const char* devices = get("CUDA_VISIBLE_DEVICES")) config.visible_devices = *devices == '\0' ? "-1" : devices;
  for (const char* name : kForwardedVariables) {
    if (const char* value = get(name)) config.forwarded_environment.push_back(std::string(name) + "=" + value);
  }
  return config;
}

const Config& GetConfig() {
  // Leaked: exit handlers still ask.
  static const Config* const config =
      new Config(ParseConfig([](const char* name) -> const char* { return std::getenv(name); }));
  return *config;
}

ServerAddress ParseServerAddress(std::string_view address) {
  ServerAddress result;
  const size_t colon = address.find(':');
  const std::string_view scheme = colon == std::string_view::npos ? std::string_view() : address.substr(0, colon);
  if (scheme == "unix") {
    result.unix_path = address.substr(colon + 1);
    if (result.unix_path.empty()) {
      result.error = "TESSERA_SERVER=unix: names no socket; write unix:PATH with the path that tesserad prints";
    } else if (result.unix_path.size() >= sizeof(sockaddr_un::sun_path)) {
      result.error = "the socket path in TESSERA_SERVER has " + std::to_string(result.unix_path.size()) +
                     " bytes, a Unix socket takes at most " + std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                     "; start tesserad on a shorter path";
      result.unix_path.clear();
    }
  } else if (scheme == "tcp") {
    result.error = "TESSERA_SERVER=" + std::string(address) +
                   " is on another host, where this library does not go by itself: start the program with 'tessera run "
                   "--server " + std::string(address) + "', or start a tessera-agent and write its unix:PATH";
  } else if (scheme == "tls" || scheme == "ucx") {
    result.error = "TESSERA_SERVER=" + std::string(address) + ": the scheme " + std::string(scheme) +
                   ": is not supported by this version; use unix:PATH of a tesserad on this host";
  } else {
    result.error = "TESSERA_SERVER=" + std::string(address) +
                   " has no known scheme; write unix:PATH with the path that tesserad prints";
  }
  return result;
}

}  // namespace tessera
