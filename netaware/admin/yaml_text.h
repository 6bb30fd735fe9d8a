// JSON's values as YAML 1.2, in the block style of tools that read it. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tessera {

// With a newline at the end. Text that YAML would read as something else, in any of its versions, is quoted; whatever is no UTF-8
// is replaced.
std::string YamlText(const nlohmann::json& json);

}  // namespace tessera
