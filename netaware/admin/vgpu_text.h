// vGPUs for people and for programs. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "generated/control/vgpu.pb.h"

namespace tessera {

nlohmann::json AsJson(const control::v1::Vgpu& vgpu);
nlohmann::json AsJson(const control::v1::VgpuList& list);
// As AsJson(), with the memory that the vGPU's sessions hold, which only the answer of Get contains.
nlohmann::json AsJsonWithMemory(const control::v1::Vgpu& vgpu);

// One line for each field.
std::string Describe(const control::v1::Vgpu& vgpu);
// A table, or one line if the list is empty.
std::string Describe(const control::v1::VgpuList& list);

// A table of rows of equal length; the first row has the headings.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

// JSON text with a newline at the end; bytes that are not UTF-8 are replaced.
std::string Text(const nlohmann::json& json, int indent);

}  // namespace tessera
