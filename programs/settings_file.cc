#include "programs/settings_file.h"

#include <fmt/core.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "programs/config_lines.h"
#include "protocol/base/printable.h"
#include "protocol/base/small_file.h"

namespace tessera {
namespace {

using Kind = ConfigLine::Kind;

constexpr size_t kFileBytesMax = 64 << 10;
// Options that ask the program for something else than to serve.
constexpr std::string_view kQuestions[] = {"help", "version", "completion"};

bool IsQuestion(std::string_view name) { return std::ranges::count(kQuestions, name) > 0; }
bool IsHidden(const CLI::Option& option) { return option.get_group().empty(); }
bool IsFlag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }
bool IsList(const CLI::Option& option) { return option.get_items_expected_max() > 1; }

// "listen" of --listen and --listen=...
std::string_view NameIn(std::string_view word) {
  return word.starts_with("--") ? word.substr(2, word.find('=') - 2) : std::string_view();
}

bool AreForSettings(const CLI::App& app, const std::vector<std::string>& words) {
  return std::ranges::none_of(words, [&](const std::string& word) {
    const std::string_view name = NameIn(word);
    const CLI::Option* const option = name.empty() ? nullptr : app.get_option_no_throw("--" + std::string(name));
    return word == "-h" || IsQuestion(name) || (option != nullptr && IsHidden(*option));
  });
}

std::vector<std::string_view> KeysOf(const CLI::App& app) {
  std::vector<std::string_view> keys;
  for (const CLI::Option* option : app.get_options()) {
    if (IsHidden(*option)) continue;
    for (const std::string& name : option->get_lnames()) {
      if (!IsQuestion(name) && name != "config") keys.push_back(name);
    }
  }
  return keys;
}

// Empty, or why the option cannot have such a value.
std::string WrongKind(const ConfigLine& line, const CLI::Option& option) {
  bool is_right = line.kind == Kind::kText || line.kind == Kind::kNumber;
  const char* wanted = "a text or a number";
  if (IsFlag(option)) {
    is_right = line.kind == Kind::kTruth;
    wanted = WordOf(Kind::kTruth);
  } else if (IsList(option)) {
    is_right = is_right || line.kind == Kind::kList;
    wanted = "a text, or a list of texts";
  }
  return is_right ? "" : fmt::format("{} is no value of the key '{}', which takes {}", WordOf(line.kind), line.key, wanted);
}

std::vector<std::string> WordsOf(const ConfigLine& line, const CLI::Option& option) {
  if (IsFlag(option)) return line.values[0] == "true" ? std::vector{"--" + line.key} : std::vector<std::string>();
  std::vector<std::string> words;
  for (const std::string& value : line.values) words.push_back("--" + line.key + "=" + value);
  return words;
}

// Empty, or why `app` does not take them.
std::string TryOut(CLI::App& app, std::vector<std::string> words) {
  std::ranges::reverse(words);
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

Result<std::optional<std::string>> ReadSettingsFile(const std::string& path) {
  Result<UniqueFd> file = OpenSmallFile(path);
  struct stat state {};
  if (!file.ok()) {
    const bool is_closed = file.status().code() == StatusCode::kPermissionDenied && stat(path.c_str(), &state) != 0;
    if (file.status().code() == StatusCode::kNotFound || is_closed) return std::optional<std::string>();
    return file.status();
  }
  if (fstat(file->get(), &state) == 0 && S_ISREG(state.st_mode) && (state.st_mode & S_IWOTH) != 0) {
    return Status(StatusCode::kPermissionDenied,
                  "the file " + Printable(path) + " can be changed by everybody: chmod o-w " + Printable(path));
  }
  Result<std::string> text = ReadSmallFile(*file, path, kFileBytesMax);
  if (!text.ok()) return text.status();
  return std::optional<std::string>(std::move(*text));
}

std::string SettingsPath(const std::string& name) {
  if (const char* const config = getenv("XDG_CONFIG_HOME"); config != nullptr && config[0] == '/')
    return std::string(config) + "/tessera/" + name;
  if (geteuid() == 0) return "/etc/tessera/" + name;
  const char* const home = getenv("HOME");
  return home != nullptr && home[0] == '/' ? std::string(home) + "/.config/tessera/" + name : "";
}

std::optional<std::string> SettingsNamedIn(const std::vector<std::string>& words) {
  constexpr std::string_view kOption = "--config";
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(std::string(kOption) + "=")) return words[i].substr(kOption.size() + 1);
    if (words[i] == kOption && i + 1 < words.size()) return words[i + 1];
  }
  return std::nullopt;
}

Result<std::vector<std::string>> SettingsAsWords(CLI::App& app, const std::string& path, const std::vector<std::string>& words,
                                                 std::map<std::string, int>* lines_of) {
  std::vector<std::string> more;
  if (path.empty() || !AreForSettings(app, words)) return more;
  Result<std::optional<std::string>> text = ReadSettingsFile(path);
  if (!text.ok()) return text.status();
  if (!text->has_value() && SettingsNamedIn(words)) return OpenSmallFile(path).status();
  if (!text->has_value()) return more;
  Result<std::vector<ConfigLine>> lines = ParseConfigLines(**text, path, KeysOf(app));
  if (!lines.ok()) return lines.status();
  for (const ConfigLine& line : *lines) {
    const CLI::Option* const option = app.get_option_no_throw("--" + line.key);
    if (const std::string wrong = WrongKind(line, *option); !wrong.empty()) return ConfigError(path, line.line, wrong);
    const std::vector<std::string> of_line = WordsOf(line, *option);
    if (const std::string wrong = TryOut(app, of_line); !wrong.empty())
      return ConfigError(path, line.line, fmt::format("the value of the key '{}' is none: {}", line.key, Printable(wrong)));
    const bool is_said = std::ranges::any_of(words, [&](const std::string& word) { return NameIn(word) == line.key; });
    if (is_said) continue;
    more.insert(more.end(), of_line.begin(), of_line.end());
    if (lines_of != nullptr) (*lines_of)[line.key] = line.line;
  }
  return more;
}

Settings SettingsIn(const CLI::App& app) {
  Settings settings;
  for (const std::string_view key : KeysOf(app)) {
    const CLI::Option* const option = app.get_option_no_throw("--" + std::string(key));
    std::vector<std::string>& values = settings[std::string(key)];
    if (option->count() > 0) {
      values = option->results();
    } else if (!option->get_default_str().empty()) {
      values = {option->get_default_str()};
    }
  }
  return settings;
}

}  // namespace tessera
