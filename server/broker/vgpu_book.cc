#include "server/broker/vgpu_book.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "protocol/base/printable.h"
#include "server/broker/gpu_name.h"

namespace tessera {
namespace {

// For a string of TOML; holders can be printed.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace

std::string_view MadeByName(MadeBy made_by) { return made_by == MadeBy::kFile ? "file" : "api"; }

bool BookedVgpu::IsFor(std::string_view holder) const {
  return owners.empty() || std::find(owners.begin(), owners.end(), holder) != owners.end();
}

const BookedVgpu* VgpuBook::Find(std::string_view name) const {
  const auto found = vgpus_.find(name);
  return found == vgpus_.end() ? nullptr : &found->second;
}

std::vector<FileVgpu> VgpuBook::WantedOf(uint32_t gpu, std::span<const FileVgpu> last) const {
  std::vector<FileVgpu> wanted;
  std::set<std::string_view> come_last;
  for (const FileVgpu& vgpu : last) come_last.insert(vgpu.spec.name);
  for (const auto& [name, vgpu] : vgpus_) {
    if (vgpu.gpu == gpu && !come_last.contains(name)) wanted.push_back({vgpu.spec, vgpu.gpu, vgpu.owners});
  }
  std::ranges::copy_if(last, std::back_inserter(wanted), [&](const FileVgpu& each) { return each.gpu == gpu; });
  return wanted;
}

Result<VgpuBook> VgpuBook::WithFile(std::span<const FileVgpu> vgpus) const {
  VgpuBook next = *this;
  std::erase_if(next.vgpus_, [&](const auto& entry) {
    const bool stays = std::ranges::any_of(vgpus, [&](const FileVgpu& each) { return each.spec.name == entry.first; });
    return entry.second.made_by == MadeBy::kFile && !stays;
  });
  for (const FileVgpu& vgpu : vgpus) {
    const BookedVgpu* const there = next.Find(vgpu.spec.name);
    if (there != nullptr && there->made_by == MadeBy::kApi) {
      return AtLine(vgpu.line, fmt::format("vGPU '{}' was made by the API: delete that one (tessera vgpu delete), or take "
                                           "another name",
                                           vgpu.spec.name));
    }
    next.Put(vgpu, MadeBy::kFile);
  }
  return next;
}

Result<VgpuBook> VgpuBook::With(std::span<const FileVgpu> vgpus) const {
  VgpuBook next = *this;
  for (const FileVgpu& vgpu : vgpus) {
    const BookedVgpu* const there = Find(vgpu.spec.name);
    if (there != nullptr && there->made_by == MadeBy::kFile) return IsOfFile(vgpu.spec.name);
    next.Put(vgpu, MadeBy::kApi);
  }
  return next;
}

std::string VgpuBook::TextOfApi(std::span<const GpusMessage::Uuid> gpus) const {
  std::string text;
  for (const auto& [name, vgpu] : vgpus_) {
    if (vgpu.made_by == MadeBy::kFile) continue;
    std::string owners;
    for (const std::string& owner : vgpu.owners) owners += fmt::format("{}\"{}\"", owners.empty() ? "" : ", ", Escaped(owner));
    text += fmt::format("[[vgpu]]\nname = \"{}\"\ngpu = \"{}\"\nrequest = {}\nlimit = {}\npriority = \"{}\"\noverrun = \"{}\"\n",
                        name, GpuName(gpus[vgpu.gpu]), vgpu.spec.request, vgpu.spec.limit, PriorityName(vgpu.spec.priority),
                        OverrunName(vgpu.spec.overrun));
    if (vgpu.spec.memory_bytes != 0) text += fmt::format("memory = {}\n", vgpu.spec.memory_bytes);
    if (vgpu.spec.max_sessions != 0) text += fmt::format("max_sessions = {}\n", vgpu.spec.max_sessions);
    if (vgpu.spec.processes != 1) text += fmt::format("processes = {}\n", vgpu.spec.processes);
    if (vgpu.spec.sm_percent != 0) text += fmt::format("sm_percent = {}\n", vgpu.spec.sm_percent);
    if (!owners.empty()) text += fmt::format("owners = [{}]\n", owners);
  }
  for (const auto& [name, vgpu] : aside_) text += vgpu.text;
  return text;
}

Result<VgpuBook> VgpuBook::Without(std::string_view name) const {
  const BookedVgpu* const there = Find(name);
  if (there == nullptr) return Status(StatusCode::kNotFound, fmt::format("there is no vGPU '{}'", Printable(name)));
  if (there->made_by == MadeBy::kFile) return IsOfFile(name);
  VgpuBook next = *this;
  next.vgpus_.erase(std::string(name));
  return next;
}

Status VgpuBook::IsOfFile(std::string_view name) {
  return Status(StatusCode::kInvalidArgument,
                fmt::format("vGPU '{}' was made by the file of vGPUs: change it there (tesserad --vgpus)", name));
}

void VgpuBook::Put(const FileVgpu& vgpu, MadeBy made_by) {
  BookedVgpu& to = vgpus_[vgpu.spec.name];
  const bool same = to.revision != 0 && to.spec == vgpu.spec && to.gpu == vgpu.gpu && to.owners == vgpu.owners;
  if (!same) to = {vgpu.spec, vgpu.gpu, vgpu.owners, made_by, ++revision_};
}

}  // namespace tessera
