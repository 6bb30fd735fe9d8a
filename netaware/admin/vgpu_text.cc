#include "netaware/admin/vgpu_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "protocol/base/bytes_text.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

std::string OwnersOf(const control::v1::Vgpu& vgpu) {
  std::string owners;
  for (const std::string& owner : vgpu.spec().owners().holders()) owners += (owners.empty() ? "" : ", ") + Printable(owner);
  return owners.empty() ? "everybody" : owners;
}

std::string MemoryOf(const control::v1::Vgpu& vgpu) {
  return vgpu.spec().memory_bytes() == 0 ? "no limit" : BytesText(vgpu.spec().memory_bytes());
}

// The number of sessions, and the maximum if there is one.
std::string SessionsOf(const control::v1::Vgpu& vgpu) {
  const std::string there = std::to_string(vgpu.sessions());
  return vgpu.spec().max_sessions() == 0 ? there : fmt::format("{} of {}", there, vgpu.spec().max_sessions());
}

// The part of the GPU's SMs that the vGPU is to have once tiles exist.
std::string SmsOf(const control::v1::Vgpu& vgpu) {
  const auto found = vgpu.spec().annotations().find("fastgshare/gpu_sm_partition");
  return found == vgpu.spec().annotations().end() ? "all" : Printable(found->second) + " %";
}

std::string Share(double share) { return fmt::format("{:.6g}", share); }

}  // namespace

nlohmann::json AsJson(const control::v1::Vgpu& vgpu) {
  nlohmann::json owners = nlohmann::json::array();
  for (const std::string& owner : vgpu.spec().owners().holders()) owners.push_back(owner);
  nlohmann::json annotations = nlohmann::json::object();
  for (const auto& [key, value] : vgpu.spec().annotations()) annotations[key] = value;
  if (!vgpu.problem().empty()) return {{"name", vgpu.name()}, {"made_by", vgpu.made_by()}, {"problem", vgpu.problem()}};
  return {{"name", vgpu.name()},
          {"gpu", vgpu.gpu()},
          {"gpu_uuid", vgpu.gpu_uuid()},
          {"request", vgpu.spec().request()},
          {"limit", vgpu.spec().limit()},
          {"memory_bytes", vgpu.spec().memory_bytes()},
          {"priority", vgpu.spec().priority()},
          {"overrun", vgpu.spec().overrun()},
          {"max_sessions", vgpu.spec().max_sessions()},
          {"owners", owners},
          {"annotations", std::move(annotations)},
          {"made_by", vgpu.made_by()},
          {"revision", vgpu.revision()},
          {"sessions", vgpu.sessions()}};
}

nlohmann::json AsJsonWithMemory(const control::v1::Vgpu& vgpu) {
  nlohmann::json json = AsJson(vgpu);
  if (!vgpu.problem().empty()) return json;
  json["memory_held_bytes"] = vgpu.memory_held_bytes();
  json["memory_held_by_kind"] = nlohmann::json::object();
  for (const auto& [kind, bytes] : vgpu.memory_held_by_kind()) json["memory_held_by_kind"][kind] = bytes;
  return json;
}

nlohmann::json AsJson(const control::v1::VgpuList& list) {
  nlohmann::json vgpus = nlohmann::json::array();
  for (const control::v1::Vgpu& vgpu : list.vgpus()) vgpus.push_back(AsJson(vgpu));
  return {{"vgpus", vgpus}};
}

std::string Describe(const control::v1::Vgpu& vgpu) {
  if (!vgpu.problem().empty()) {
    return fmt::format("name      {}\nmade by   {}\nproblem   {}\n", Printable(vgpu.name()), Printable(vgpu.made_by()),
                       Printable(vgpu.problem()));
  }
  return fmt::format(
      "name      {}\nGPU       {} ({})\nrequest   {}\nlimit     {}\nmemory    {}\nSMs       {}\npriority  {}\noverrun   "
      "{}\nowners    {}\nmade "
      "by   {}\n"
      "revision  {}\nsessions  {}\n",
      Printable(vgpu.name()), vgpu.gpu(), Printable(vgpu.gpu_uuid()), Share(vgpu.spec().request()), Share(vgpu.spec().limit()),
      MemoryOf(vgpu), SmsOf(vgpu), Printable(vgpu.spec().priority()), Printable(vgpu.spec().overrun()), OwnersOf(vgpu),
      Printable(vgpu.made_by()), vgpu.revision(), SessionsOf(vgpu));
}

std::string Describe(const control::v1::VgpuList& list) {
  if (list.vgpus().empty()) return "there is no vGPU for you here\n";
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "GPU", "REQUEST", "LIMIT", "MEMORY", "SMS", "PRIORITY", "SESSIONS", "MADE BY", "OWNERS"}};
  for (const control::v1::Vgpu& vgpu : list.vgpus()) {
    if (!vgpu.problem().empty()) {
      rows.push_back({Printable(vgpu.name()), "-", "-", "-", "-", "-", "-", "-", Printable(vgpu.made_by()),
                      "not in force: " + Printable(vgpu.problem())});
      continue;
    }
    rows.push_back({Printable(vgpu.name()), std::to_string(vgpu.gpu()), Share(vgpu.spec().request()), Share(vgpu.spec().limit()),
                    MemoryOf(vgpu), SmsOf(vgpu), Printable(vgpu.spec().priority()), SessionsOf(vgpu), Printable(vgpu.made_by()),
                    OwnersOf(vgpu)});
  }
  return TableText(rows);
}

std::string TableText(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.at(0).size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) text += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += row.back() + "\n";
  }
  return text;
}

std::string Text(const nlohmann::json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace tessera
