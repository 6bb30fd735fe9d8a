#include "netaware/job/job_config.h"

#include <fmt/core.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "programs/config_lines.h"
#include "programs/settings_file.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

using Kind = ConfigLine::Kind;

constexpr std::array<std::string_view, 3> kKeyFiles = {"certificate", "key", "authority"};
// Options with numbers as values; true: a text is allowed too ("0.25:0.5", "10m").
constexpr std::pair<std::string_view, bool> kNumbers[] = {
    {"gpus", false}, {"processes", false}, {"gpu-share", true}, {"wait", true}};

// A parser of the job options, which checks values.
struct JobParser {
  JobParser() { AddJobOptions(app, &options); }

  std::vector<std::string_view> Keys() {
    std::vector<std::string_view> keys(kKeyFiles.begin(), kKeyFiles.end());
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) {
        if (name != "help") keys.push_back(name);
      }
    }
    return keys;
  }

  CLI::App app;
  JobOptions options;
};

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

// The setting as words of a command line.
std::vector<std::string> WordsOf(const JobConfig::Setting& setting, bool is_flag) {
  if (is_flag)
    return setting.values == std::vector<std::string>{"true"} ? std::vector{"--" + setting.key} : std::vector<std::string>();
  std::vector<std::string> words;
  for (const std::string& value : setting.values) words.push_back(fmt::format("--{}={}", setting.key, value));
  return words;
}

bool IsFlag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

// Returns the error of the value; empty: none.
std::string CheckValue(const ConfigLine& line) {
  JobParser parser;
  const CLI::Option* const option = parser.app.get_option_no_throw("--" + line.key);
  const bool is_flag = option != nullptr && IsFlag(*option);
  const auto* const number =
      std::find_if(std::begin(kNumbers), std::end(kNumbers), [&](const auto& one) { return one.first == line.key; });
  const bool is_number = number != std::end(kNumbers);
  bool is_right = line.kind == Kind::kText;
  const char* wanted = WordOf(Kind::kText);
  if (is_flag) {
    is_right = line.kind == Kind::kTruth;
    wanted = WordOf(Kind::kTruth);
  } else if (is_number) {
    is_right = line.kind == Kind::kNumber || (number->second && is_right);
    wanted = number->second ? "a number, or a text" : WordOf(Kind::kNumber);
  } else if (option != nullptr && option->get_delimiter() != '\0') {
    is_right = is_right || line.kind == Kind::kList;
    wanted = "a text, or a list of texts";
  }
  if (!is_right) return fmt::format("{} is no value of the key '{}', which takes {}", WordOf(line.kind), line.key, wanted);
  if (std::find(line.values.begin(), line.values.end(), "") != line.values.end())
    return fmt::format("the text of the key '{}' is empty", line.key);
  if (line.key == "placer" && !line.values[0].starts_with("unix:") && !line.values[0].starts_with("tls://")) {
    return fmt::format("'{}' of the key 'placer' is no address: it is unix:PATH or tls://HOST:PORT", Printable(line.values[0]));
  }
  if (option == nullptr) return "";
  std::vector<std::string> words = WordsOf({line.key, line.values, "", 0}, is_flag);
  std::reverse(words.begin(), words.end());
  try {
    parser.app.parse(words);
  } catch (const CLI::ParseError& error) {
    return fmt::format("the value of the key '{}' is none: {}", line.key, error.what());
  }
  return "";
}

}  // namespace

std::vector<std::string> JobConfig::Paths() {
  std::vector<std::string> paths;
  if (const std::string config = Variable("XDG_CONFIG_HOME"); config.starts_with('/')) {
    paths.push_back(config + "/tessera/config.toml");
  } else if (const std::string home = Variable("HOME"); home.starts_with('/')) {
    paths.push_back(home + "/.config/tessera/config.toml");
  }
  paths.emplace_back("/etc/tessera/config.toml");
  return paths;
}

Result<JobConfig> JobConfig::Read(const std::vector<std::string>& paths) {
  JobConfig config;
  for (const std::string& path : paths) {
    Result<std::optional<std::string>> text = ReadSettingsFile(path);
    if (!text.ok()) return text.status();
    if (!text->has_value()) continue;
    config.files_.push_back(path);
    JobParser parser;
    Result<std::vector<ConfigLine>> lines = ParseConfigLines(**text, path, parser.Keys());
    if (!lines.ok()) return lines.status();
    for (ConfigLine& line : *lines) {
      if (const std::string wrong = CheckValue(line); !wrong.empty()) return ConfigError(path, line.line, wrong);
      if (config.Find(line.key) == nullptr) config.settings_.push_back({line.key, std::move(line.values), path, line.line});
    }
  }
  return config;
}

void JobConfig::Complete(JobOptions* job) const {
  if (settings_.empty()) return;
  std::vector<std::string> words = JobArguments(*job);
  const std::vector<std::string> said = words;
  JobParser parser;
  for (const Setting& setting : settings_) {
    const CLI::Option* const option = parser.app.get_option_no_throw("--" + setting.key);
    const bool is_said = std::find(said.begin(), said.end(), "--" + setting.key) != said.end();
    if (option == nullptr || is_said || (setting.key == "placer" && !Variable("TESSERA_PLACER").empty())) continue;
    const std::vector<std::string> more = WordsOf(setting, IsFlag(*option));
    words.insert(words.end(), more.begin(), more.end());
  }
  std::reverse(words.begin(), words.end());
  parser.app.parse(words);  // cannot fail: Read() has checked each value
  *job = parser.options;
}

void JobConfig::CompleteKeys(std::string* certificate, std::string* key, std::string* authority) const {
  const auto complete = [&](std::string* file, const char* name, const char* variable) {
    const Setting* const setting = Find(name);
    if (file->empty() && Variable(variable).empty() && setting != nullptr) *file = setting->values.front();
  };
  complete(certificate, "certificate", "TESSERA_CERTIFICATE");
  complete(key, "key", "TESSERA_KEY");
  complete(authority, "authority", "TESSERA_AUTHORITY");
}

const JobConfig::Setting* JobConfig::Find(std::string_view key) const {
  const auto found = std::find_if(settings_.begin(), settings_.end(), [&](const Setting& setting) { return setting.key == key; });
  return found == settings_.end() ? nullptr : &*found;
}

}  // namespace tessera
