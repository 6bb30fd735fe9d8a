// What the supervisor takes of a file of settings that is read again.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/log.h"
#include "protocol/base/printable.h"
#include "server/daemon/session_bounds.h"
#include "server/daemon/supervisor.h"

namespace tessera {
namespace {

// What can change while sessions run. Everything else went to processes that have it from their start, or to sockets and files
// that are open.
struct Changeable {
  std::string_view key;
  void (*take)(const Options& now, Options& options);
};
constexpr Changeable kChangeable[] = {
    {"admin", [](const Options& now, Options& options) { options.administrators = now.administrators; }},
    {"audit", [](const Options& now, Options& options) { options.audit = now.audit; }},
    {"grace", [](const Options& now, Options& options) { options.grace_s = now.grace_s; }},
    {"host-memory", [](const Options& now, Options& options) { options.host_memory_mib = now.host_memory_mib; }},
    {"log",
     [](const Options& now, Options& options) {
       options.log_level = now.log_level;
       options.log_word = now.log_word;
     }},
    {"max-sessions", [](const Options& now, Options& options) { options.sessions_max = now.sessions_max; }},
    {"start-wait", [](const Options& now, Options& options) { options.start_wait_s = now.start_wait_s; }},
};

const Changeable* Find(std::string_view key) {
  for (const Changeable& each : kChangeable) {
    if (each.key == key) return &each;
  }
  return nullptr;
}

std::string Listed(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += (list.empty() ? "" : " ") + Printable(value);
  return list.empty() ? "none" : list;
}

}  // namespace

std::string Supervisor::ReadSettingsAgain() {
  Result<Options> now = ParseOptionsAgain(options_.words);
  if (!now.ok()) {
    const std::string sentence = "the options stay as they are: " + Printable(now.status().message());
    LogError("{}", sentence);
    return sentence;
  }
  const uint32_t sessions_max = options_.sessions_max;
  const std::vector<std::string> administrators = options_.administrators;
  std::string changed, waiting;
  for (const auto& [key, values] : now->settings) {
    if (values == options_.settings[key]) continue;
    if (const Changeable* const one = Find(key)) {
      one->take(*now, options_);
      options_.settings[key] = values;
      changed += (changed.empty() ? "" : ", ") + key + " = " + Listed(values);
    } else {
      waiting += (waiting.empty() ? "" : ", ") + key;
    }
  }
  SetLogLevel(options_.log_level);
  auditor_.SetMode(options_.audit);
  host_memory_.SetLimits(HostMemoryLimits(options_));
  if (options_.sessions_max != sessions_max) {
    sessions_.SetLimits(SessionLimits(options_));
    shares_.SetDescriptors(DescriptorPlan::OfThisProcess(options_.sessions_max).shares, SharesReserve(options_));
    report_.sessions_max = options_.sessions_max;
  }
  if (options_.administrators != administrators) broker_.StartAnew();
  if (!changed.empty()) LogInfo("options that are in force from now on: {}", changed);
  if (!waiting.empty()) LogWarning("options that need a restart of the server to be in force: {}", waiting);
  if (changed.empty() && waiting.empty()) LogInfo("the options are as they were");
  return waiting.empty() ? "" : "serves; a restart is needed for " + waiting;
}

}  // namespace tessera
