#include "protocol/link/link_options.h"

#include <thread>

namespace tessera {

uint32_t UsualConnections() {
  constexpr unsigned kCoresMin = 2 * kUsualConnections;
  return std::thread::hardware_concurrency() >= kCoresMin ? kUsualConnections : 1;
}

std::vector<std::string> LinkArguments(const LinkOptions& options) {
  std::vector<std::string> words;
  if (options.insecure) words.push_back("--insecure");
  if (options.connections != 0) words.insert(words.end(), {"--connections", std::to_string(options.connections)});
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--certificate", options.keys.certificate);
  add("--key", options.keys.key);
  add("--authority", options.keys.authority);
  for (const std::string& name : options.allow) add("--allow", name);
  add("--allow-file", options.allow_file);
  add("--tls-records", options.tls_records);
  add("--impair", options.impair);
  return words;
}

}  // namespace tessera
