#include "server/daemon/children/client_environment.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "protocol/base/log.h"

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

std::string_view Trim(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(" \t") - start + 1);
}

std::vector<std::string_view> Split(std::string_view list) {
  std::vector<std::string_view> entries;
  for (;;) {
    const size_t comma = list.find(',');
    entries.push_back(Trim(list.substr(0, comma)));
    if (comma == std::string_view::npos) return entries;
    list.remove_prefix(comma + 1);
  }
}

// The entry of `own` that `wanted` names; empty when there is none.
std::string_view Resolve(const std::vector<std::string_view>& own, std::string_view wanted) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), index);
  if (error == std::errc() && end == wanted.data() + wanted.size()) return index < own.size() ? own[index] : std::string_view();
  const auto found = std::find(own.begin(), own.end(), wanted);
  return found == own.end() || wanted.empty() ? std::string_view() : *found;
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

std::string SelectAmong(std::string_view own, std::string_view wanted) {
  const std::vector<std::string_view> own_entries = Split(own);
  std::string selected;
  for (const std::string_view entry : Split(wanted)) {
    const std::string_view resolved = Resolve(own_entries, entry);
    if (resolved.empty()) break;
    if (!selected.empty()) selected += ',';
    selected += resolved;
  }
  return selected.empty() ? "-1" : selected;
}

}  // namespace tessera
