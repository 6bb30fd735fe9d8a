#include "programs/unknown_word.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "protocol/base/nearest_name.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

std::string Nearest(std::string_view word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view nearest = NearestName(word, views);
  return nearest.empty() ? "" : fmt::format(": the nearest is '{}'", nearest);
}

// Those that --help shows, with their dashes.
std::vector<std::string> OptionsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Of "action: shwo not in {show,renew}", as CLI11 writes it.
std::string NearestInList(std::string_view text) {
  constexpr std::string_view kBetween = " not in {";
  const size_t end = text.find(kBetween);
  if (end == std::string_view::npos || !text.ends_with('}')) return "";
  std::string_view word = text.substr(0, end);
  if (const size_t begin = word.rfind(": "); begin != std::string_view::npos) word.remove_prefix(begin + 2);
  std::string_view list = text.substr(end + kBetween.size());
  list.remove_suffix(1);
  std::vector<std::string> names;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    names.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return Nearest(word, names);
}

}  // namespace

std::string UnknownCommand(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || words[0].empty() || words[0][0] == '-') return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  if (names.empty() || std::ranges::count(names, words[0]) > 0) return "";
  return fmt::format("there is no command '{}'{}", Printable(words[0]), Nearest(words[0], names));
}

std::string WithNearest(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return text + NearestInList(text);
  for (const std::string& word : app.remaining(true)) {
    if (!word.starts_with("--") || word.size() == 2) continue;
    const CLI::App& at = app.get_subcommands().empty() ? app : *app.get_subcommands().front();
    return text + Nearest(word.substr(0, word.find('=')), OptionsOf(at));
  }
  return text;
}

}  // namespace tessera
