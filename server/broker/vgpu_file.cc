#include "server/broker/vgpu_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "scheduler/admission.h"

namespace tessera {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

bool BeginsWithNumberAlone(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  std::string_view line = text.substr(0, text.find('\n'));
  line = line.substr(0, line.find_last_not_of(kBlanks) + 1);
  return !line.empty() && std::all_of(line.begin(), line.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Status AtLine(size_t line, const Status& why) {
  return line == 0 ? why : Status(why.code(), fmt::format("line {}: {}", line, why.message()));
}

Status AtLine(size_t line, const std::string& why) { return AtLine(line, Status(StatusCode::kInvalidArgument, why)); }

Result<VgpuFile> ReadVgpuFile(std::string_view text, const VgpuFileTerms& terms) {
  Result<VgpuFile> file = BeginsWithNumberAlone(text) ? ReadGeminiVgpus(text) : ReadTomlVgpus(text, terms);
  if (!file.ok()) return file.status();
  std::map<std::string_view, size_t> lines;  // by name
  for (const FileVgpu& vgpu : file->vgpus) {
    if (const Status status = CheckVgpuSpec(vgpu.spec); !status.ok()) return AtLine(vgpu.line, status);
    const std::string& name = vgpu.spec.name;
    if (name == kDefaultVgpu) {
      return AtLine(vgpu.line, fmt::format("name '{}' is that of the vGPU of sessions that name none: take another", name));
    }
    if (const auto [first, is_new] = lines.emplace(name, vgpu.line); !is_new) {
      return AtLine(vgpu.line, fmt::format("name '{}' stands in line {} already: take another", name, first->second));
    }
    if (vgpu.gpu >= terms.gpus.size()) return AtLine(vgpu.line, fmt::format("vGPU '{}': the server has no GPU", name));
  }
  return file;
}

}  // namespace tessera
