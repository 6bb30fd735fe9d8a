// Converts JSON values to YAML 1.2 in block style, and formats values as JSON or YAML by --output. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tessera {

// YAML text with a newline at the end. A string that any YAML version would read as another type is quoted; bytes that are not
// UTF-8 are replaced.
std::string YamlText(const nlohmann::json& json);

// True if `output` is a form for programs: "json" or "yaml".
bool IsData(const std::string& output);
// `json` in that form: DataText() for a whole answer, DataPart() for one of several values (JSON: one a line; YAML: one
// document each).
std::string DataText(const nlohmann::json& json, const std::string& output);
std::string DataPart(const nlohmann::json& json, const std::string& output);

}  // namespace tessera
