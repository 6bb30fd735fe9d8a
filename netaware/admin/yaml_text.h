// JSON's values as YAML 1.2, in the block style of tools that read it; and either, as --output says. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tessera {

// With a newline at the end. Text that YAML would read as something else, in any of its versions, is quoted; whatever is no UTF-8
// is replaced.
std::string YamlText(const nlohmann::json& json);

// Whether `output` is a form for programs: "json", "yaml".
bool IsData(const std::string& output);
// `json` in that form: a whole answer, or one of several that follow one another (a line each, a document each).
std::string DataText(const nlohmann::json& json, const std::string& output);
std::string DataPart(const nlohmann::json& json, const std::string& output);

}  // namespace tessera
