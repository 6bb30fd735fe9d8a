#include "server/daemon/children/client_environment.h"

#include <algorithm>
#include <iterator>

#include "protocol/base/log.h"
#include "protocol/base/visible_devices.h"

namespace tessera {
namespace {

// Source: CUDA C Programming Guide, "CUDA Environment Variables". Those that name paths (CUDA_CACHE_PATH) or reach beyond
// the process (CUDA_MPS_*) are not among them; CUDA_VISIBLE_DEVICES travels as the hello's list of devices.
constexpr std::string_view kAllowed[] = {
    "CUDA_AUTO_BOOST",
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_FORCE_JIT",
    "CUDA_FORCE_PRELOAD_LIBRARIES",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_GRAPHS_USE_NODE_PRIORITY",
    "CUDA_MODULE_DATA_LOADING",
    "CUDA_MODULE_LOADING",
    "CUDA_SCALE_LAUNCH_QUEUES",
};

std::vector<std::string> Split(std::string_view list) {
  std::vector<std::string> entries;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    entries.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return entries;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> AllowedVariables(const std::vector<std::string>& environment) {
  std::vector<std::pair<std::string, std::string>> allowed;
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (equals == std::string::npos || std::find(std::begin(kAllowed), std::end(kAllowed), name) == std::end(kAllowed)) {
      LogInfo("left out the client's variable {}: it is not one that a client may set", name);
      continue;
    }
    allowed.emplace_back(name, entry.substr(equals + 1));
  }
  return allowed;
}

std::vector<std::string> DevicesOfSession(std::string_view gpus, const char* own, const std::vector<std::string>& devices) {
  if (!gpus.empty()) return Split(gpus);
  if (own == nullptr) return {};
  std::vector<std::string> named = devices;
  const std::vector<std::string> entries = Split(own);
  for (size_t i = 0; i < named.size() && i < entries.size(); ++i) {
    if (entries[i].starts_with("MIG-")) named[i] = entries[i];
  }
  return named;
}

std::string SelectAmong(const std::vector<std::string>& own, std::string_view wanted) {
  std::string selected;
  const auto select = [&selected](const std::string& device) { selected += (selected.empty() ? "" : ",") + device; };
  if (wanted.empty()) {
    for (const std::string& device : own) select(device);
  } else {
    for (const size_t number : SelectVisibleDevices(wanted, own).numbers) select(own[number]);
  }
  return selected.empty() ? "-1" : selected;
}

}  // namespace tessera
