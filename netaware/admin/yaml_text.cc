#include "netaware/admin/yaml_text.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "netaware/admin/vgpu_text.h"

namespace tessera {
namespace {

// Words that YAML 1.1 or 1.2 reads as a boolean or as null, in upper or lower case.
constexpr std::array<std::string_view, 9> kWords = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// True for text that no YAML parser reads as another type: a letter, followed by letters, digits and characters without a
// meaning inside a word.
bool IsPlain(const std::string& text) {
  if (text.empty() || !IsLetter(text.front()) || text.back() == ' ') return false;
  constexpr std::string_view kWithin = " _-./@+=()%";
  const bool is_safe =
      std::all_of(text.begin(), text.end(), [&](char c) { return IsLetter(c) || IsDigit(c) || kWithin.find(c) != kWithin.npos; });
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return is_safe && std::find(kWords.begin(), kWords.end(), lower) == kWords.end();
}

// A quoted JSON string is also valid YAML.
std::string Scalar(const nlohmann::json& json) {
  if (json.is_string() && IsPlain(json.get_ref<const std::string&>())) return json.get<std::string>();
  if (json.is_object()) return "{}";
  if (json.is_array()) return "[]";
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Appends a list or map that is not empty. Its first line continues the last line of `text`.
void Add(const nlohmann::json& json, size_t indent, std::string* text) {
  bool is_first = true;
  const auto begin_line = [&] {
    if (!std::exchange(is_first, false)) text->append(indent, ' ');
  };
  if (json.is_array()) {
    for (const nlohmann::json& each : json) {
      begin_line();
      *text += "- ";
      if (each.is_structured() && !each.empty()) {
        Add(each, indent + 2, text);
      } else {
        *text += Scalar(each) + "\n";
      }
    }
    return;
  }
  for (const auto& [key, value] : json.items()) {
    begin_line();
    *text += Scalar(nlohmann::json(key)) + ":";
    if (value.is_structured() && !value.empty()) {
      *text += "\n" + std::string(indent + 2, ' ');
      Add(value, indent + 2, text);
    } else {
      *text += " " + Scalar(value) + "\n";
    }
  }
}

}  // namespace

std::string YamlText(const nlohmann::json& json) {
  if (!json.is_structured() || json.empty()) return Scalar(json) + "\n";
  std::string text;
  Add(json, 0, &text);
  return text;
}

bool IsData(const std::string& output) { return output == "json" || output == "yaml"; }

std::string DataText(const nlohmann::json& json, const std::string& output) {
  return output == "json" ? Text(json, 2) : YamlText(json);
}

std::string DataPart(const nlohmann::json& json, const std::string& output) {
  return output == "json" ? Text(json, -1) : "---\n" + YamlText(json);
}

}  // namespace tessera
