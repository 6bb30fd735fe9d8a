// vGPUs for people and for programs. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "generated/control/vgpu.pb.h"

namespace tessera {

nlohmann::json AsJson(const control::v1::Vgpu& vgpu);
nlohmann::json AsJson(const control::v1::VgpuList& list);
// Besides what its sessions hold, as Get tells it.
nlohmann::json AsJsonWithMemory(const control::v1::Vgpu& vgpu);

// A line for each field.
std::string Describe(const control::v1::Vgpu& vgpu);
// A table, or a line that says that there are none.
std::string Describe(const control::v1::VgpuList& list);

// Rows of one length, of which the first are headings.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

// With a newline at the end; whatever is no UTF-8 is replaced.
std::string Text(const nlohmann::json& json, int indent);

}  // namespace tessera
