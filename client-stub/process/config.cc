#include "client-stub/process/config.h"

#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "client-stub/process/compile_cache.h"
#include "protocol/memory/window_table.h"

namespace tessera {
namespace {

// Whom an agent shows to be at tls://, and how.
constexpr const char* kAgentVariables[] = {"TESSERA_CERTIFICATE", "TESSERA_KEY",     "TESSERA_AUTHORITY",
                                           "TESSERA_TLS_RECORDS", "XDG_CONFIG_HOME", "HOME"};

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

bool IsTrue(const char* value) { return value != nullptr && std::atoi(value) != 0; }

// The parts between commas, empty ones too.
std::vector<std::string_view> Split(std::string_view list) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t comma = list.find(',');
    parts.push_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    list.remove_prefix(comma + 1);
  }
}

uint32_t ParseWaitMs(const char* text) {
  if (text == nullptr || *text < '0' || *text > '9') return UINT32_MAX;
  return static_cast<uint32_t>(std::min<unsigned long long>(std::strtoull(text, nullptr, 10), UINT32_MAX));
}

std::string OrEmpty(const char* value) { return value == nullptr ? std::string() : std::string(value); }

}  // namespace

Config ParseConfig(const char* (*get)(const char* name)) {
  Config config;
  config.server = OrEmpty(get("TESSERA_SERVER"));
  config.vgpus = OrEmpty(get("TESSERA_VGPU"));
  config.tickets = OrEmpty(get("TESSERA_TICKET"));
  config.runtime_directory = OrEmpty(get("XDG_RUNTIME_DIR"));
  config.server_names = OrEmpty(get("TESSERA_SERVER_NAMES"));
  config.wait_ms = ParseWaitMs(get("TESSERA_WAIT_MS"));
  if (const char* level = get("TESSERA_LOG"); level != nullptr && *level != '\0') {
    if (!ParseLogLevel(level, &config.log_level)) config.bad_log_level = level;
  }
  config.trace = OrEmpty(get("TESSERA_TRACE"));
  if (const char* begun = get("TESSERA_RUN_BEGUN")) config.run_begun_ns = std::strtoull(begun, nullptr, 10);
  config.stats = OrEmpty(get("TESSERA_STATS"));
  if (config.stats == "0") config.stats.clear();
  config.launch_blocking = IsTrue(get("CUDA_LAUNCH_BLOCKING")) || IsTrue(get("TESSERA_LAUNCH_BLOCKING"));
  config.eager_module_loading = OrEmpty(get("CUDA_MODULE_LOADING")) == "EAGER";
  if (const char* devices = get("CUDA_VISIBLE_DEVICES")) config.visible_devices = *devices == '\0' ? "-1" : devices;
  if (!IsTrue(get("CUDA_CACHE_DISABLE"))) {
    const std::string home = OrEmpty(get("HOME"));
    std::string path = OrEmpty(get("CUDA_CACHE_PATH"));
    if (path.empty() && !home.empty()) path = home + "/.nv/ComputeCache";
    if (!path.empty()) config.compile_cache_directory = path + "/tessera";
  }
  const char* cache_bytes_max = get("CUDA_CACHE_MAXSIZE");
  config.compile_cache_bytes_max =
      cache_bytes_max != nullptr ? std::strtoull(cache_bytes_max, nullptr, 10) : CompileCache::kDefaultBytesMax;
  for (const char* name : kAgentVariables) config.agent_settings += OrEmpty(get(name)) + "\n";
  for (const char* name : kForwardedVariables) {
    if (const char* value = get(name)) config.forwarded_environment.push_back(std::string(name) + "=" + value);
  }
  return config;
}

Config ReadConfig() {
  return ParseConfig([](const char* name) -> const char* { return std::getenv(name); });
}

ServerAddress ParseServerAddress(std::string_view address) {
  ServerAddress result;
  const size_t colon = address.find(':');
  const std::string_view scheme = colon == std::string_view::npos ? std::string_view() : address.substr(0, colon);
  const bool is_path = address.starts_with('/');
  if (scheme == "unix" || is_path) {
    result.unix_path = is_path ? address : address.substr(colon + 1);
    if (result.unix_path.empty()) {
      result.error = "TESSERA_SERVER=unix: names no socket; write unix:PATH with the path that tesserad prints";
    } else if (result.unix_path.size() >= sizeof(sockaddr_un::sun_path)) {
      result.error = "the socket path in TESSERA_SERVER has " + std::to_string(result.unix_path.size()) +
                     " bytes, a Unix socket takes at most " + std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                     "; start tesserad on a shorter path";
      result.unix_path.clear();
    }
  } else if (scheme == "tcp" || scheme == "tls" || scheme == "ucx") {
    result.other_host = address;
  } else {
    result.error =
        "TESSERA_SERVER=" + std::string(address) + " has no known scheme; write unix:PATH with the path that tesserad prints";
  }
  return result;
}

ServerList ParseServerList(std::string_view addresses, std::string_view names, std::string_view vgpus, std::string_view tickets) {
  ServerList list;
  const std::vector<std::string_view> parts = Split(addresses);
  const std::vector<std::string_view> named = Split(names);
  const std::vector<std::string_view> shares = Split(vgpus);
  const std::vector<std::string_view> files = Split(tickets);
  const auto refuse = [&](std::string error) {
    list.servers.clear();
    list.error = std::move(error);
    return list;
  };
  if (parts.size() > static_cast<size_t>(kSessionsPerWindow)) {
    return refuse("TESSERA_SERVER names " + std::to_string(parts.size()) + " servers, a process can use at most " +
                  std::to_string(kSessionsPerWindow) + ": shorten the list");
  }
  if (!vgpus.empty() && shares.size() != parts.size()) {
    return refuse("TESSERA_VGPU=" + std::string(vgpus) + " is for " + std::to_string(shares.size()) +
                  " servers, and TESSERA_SERVER names " + std::to_string(parts.size()) +
                  ": write the vGPUs of each server, with one comma between servers");
  }
  if (!tickets.empty() && files.size() != parts.size()) {
    return refuse("TESSERA_TICKET=" + std::string(tickets) + " has tickets for " + std::to_string(files.size()) +
                  " servers, and TESSERA_SERVER names " + std::to_string(parts.size()) +
                  ": leave both as 'tessera run' has set them");
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts.size() > 1 && parts[i].empty()) {
      return refuse("TESSERA_SERVER=" + std::string(addresses) +
                    " has an empty entry: write the servers' addresses with one comma between them");
    }
    ServerAddress address = ParseServerAddress(parts[i]);
    if (!address.error.empty()) return refuse(std::move(address.error));
    for (const ServerList::Server& earlier : list.servers) {
      if (earlier.unix_path != address.unix_path || earlier.other_host != address.other_host) continue;
      return refuse("TESSERA_SERVER names the server " + std::string(parts[i]) + " twice: each has one session");
    }
    const bool has_name = named.size() == parts.size() && !named[i].empty();
    list.servers.push_back({std::string(has_name ? named[i] : parts[i]), std::move(address.unix_path),
                            std::move(address.other_host), vgpus.empty() ? std::string() : std::string(shares[i]),
                            tickets.empty() ? std::string() : std::string(files[i])});
  }
  return list;
}

}  // namespace tessera
