#include "netaware/admin/pool_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "netaware/admin/vgpu_text.h"
#include "protocol/base/bytes_text.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

using control::v1::GrantGpu;
using control::v1::GrantPart;
using control::v1::GrantState;
using control::v1::PoolGpuState;
using control::v1::ServerList;
using control::v1::ServerState;

// A placer's shares are parts per million. Rounding makes 1 - 0.3 exactly 0.7.
double Rounded(double share) { return std::round(share * 1e6) / 1e6; }
std::string ShareText(double share) { return fmt::format("{:.6g}", share); }

double FreeShare(const PoolGpuState& gpu) { return Rounded(std::max(0.0, 1 - gpu.granted_share() - gpu.others_share())); }

uint64_t FreeBytes(const PoolGpuState& gpu) {
  const uint64_t left = gpu.memory_bytes() - std::min(gpu.memory_bytes(), gpu.granted_memory_bytes());
  return left - std::min(left, gpu.others_memory_bytes());
}

template <typename Words>
nlohmann::json ListOf(const Words& words) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& word : words) list.push_back(Printable(word));
  return list;
}

template <typename Words>
std::string Joined(const Words& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + Printable(word);
  return text.empty() ? "-" : text;
}

nlohmann::json AsJson(const GrantPart& part) {
  nlohmann::json gpus = nlohmann::json::array();
  for (const GrantGpu& gpu : part.gpus()) {
    gpus.push_back({{"uuid", Printable(gpu.uuid())},
                    {"model", Printable(gpu.model())},
                    {"share", gpu.share()},
                    {"limit", gpu.limit()},
                    {"memory_bytes", gpu.memory_bytes()}});
  }
  return {{"server", Printable(part.server())},
          {"addresses", ListOf(part.addresses())},
          {"gpus", std::move(gpus)},
          {"sessions", part.sessions()}};
}

nlohmann::json AsJson(const control::v1::PlaceRequest& asked) {
  nlohmann::json json = {{"gpus", asked.gpus()},
                         {"share", asked.share()},
                         {"limit", asked.limit()},
                         {"processes", asked.processes()},
                         {"models", ListOf(asked.models())},
                         {"isolation", Printable(asked.isolation())},
                         {"priority", Printable(asked.priority())},
                         {"same_server", asked.same_server()}};
  if (asked.has_memory_bytes()) json["memory_bytes"] = asked.memory_bytes();
  if (asked.has_wait_ms()) json["wait_ms"] = asked.wait_ms();
  return json;
}

std::string Describe(const control::v1::PlaceRequest& asked) {
  std::string text = fmt::format("{} GPU{}, {}:{} of each", asked.gpus(), asked.gpus() == 1 ? "" : "s", ShareText(asked.share()),
                                 ShareText(asked.limit()));
  if (asked.has_memory_bytes()) text += ", " + BytesText(asked.memory_bytes());
  if (!asked.models().empty()) text += ", " + Joined(asked.models(), " or ");
  if (asked.same_server()) text += ", of one server";
  if (!asked.isolation().empty() && asked.isolation() != "strict") text += ", " + Printable(asked.isolation());
  if (!asked.priority().empty() && asked.priority() != "normal") text += ", " + Printable(asked.priority());
  return text;
}

// Describes a part; neighbouring GPUs that are alike are counted in one entry.
std::string Describe(const GrantPart& part) {
  std::string text;
  for (int i = 0, count = 0; i < part.gpus_size(); i += count) {
    const GrantGpu& gpu = part.gpus(i);
    const auto is_alike = [&](const GrantGpu& other) {
      return other.model() == gpu.model() && other.share() == gpu.share() && other.memory_bytes() == gpu.memory_bytes();
    };
    for (count = 1; i + count < part.gpus_size() && is_alike(part.gpus(i + count));) ++count;
    text +=
        fmt::format("{}{} x {} of {} ({} of {}, {})", text.empty() ? "" : "; ", count, Printable(gpu.model()),
                    Printable(part.server()), ShareText(gpu.share()), count == 1 ? "it" : "each", BytesText(gpu.memory_bytes()));
  }
  return text;
}

std::string UuidsOf(const GrantState& grant) {
  std::vector<std::string> uuids;
  for (const GrantPart& part : grant.parts()) {
    for (const GrantGpu& gpu : part.gpus()) uuids.push_back(gpu.uuid());
  }
  return Joined(uuids, ",");
}

std::string ModelsOf(const ServerState& server) {
  std::vector<std::string> models;
  for (const PoolGpuState& gpu : server.gpus()) {
    if (std::find(models.begin(), models.end(), gpu.model()) == models.end()) models.push_back(gpu.model());
  }
  return Joined(models, ", ");
}

}  // namespace

std::string BytesAt(const nlohmann::json& of, const char* key) { return BytesText(of.at(key).get<uint64_t>()); }

nlohmann::json ServersAsJson(const ServerList& list) {
  nlohmann::json servers = nlohmann::json::array();
  for (const ServerState& server : list.servers()) {
    servers.push_back({{"server", Printable(server.server())},
                       {"addresses", ListOf(server.addresses())},
                       {"gpus", server.gpus_size()},
                       {"models", nlohmann::json::array()},
                       {"release", Printable(server.release())},
                       {"offered", server.problem().empty()},
                       {"problem", Printable(server.problem())}});
    for (const PoolGpuState& gpu : server.gpus()) servers.back()["models"].push_back(Printable(gpu.model()));
  }
  return {{"servers", std::move(servers)}};
}

nlohmann::json GpusAsJson(const ServerList& list) {
  nlohmann::json gpus = nlohmann::json::array();
  for (const ServerState& server : list.servers()) {
    for (int i = 0; i < server.gpus_size(); ++i) {
      const PoolGpuState& gpu = server.gpus(i);
      gpus.push_back({{"server", Printable(server.server())},
                      {"gpu", i},
                      {"uuid", Printable(gpu.uuid())},
                      {"model", Printable(gpu.model())},
                      {"offered", server.problem().empty()},
                      {"granted_share", Rounded(gpu.granted_share())},
                      {"others_share", Rounded(gpu.others_share())},
                      {"free_share", FreeShare(gpu)},
                      {"memory_bytes", gpu.memory_bytes()},
                      {"granted_memory_bytes", gpu.granted_memory_bytes()},
                      {"others_memory_bytes", gpu.others_memory_bytes()},
                      {"free_memory_bytes", FreeBytes(gpu)},
                      {"context_bytes", gpu.context_bytes()},
                      {"isolations", ListOf(gpu.isolations())},
                      {"priorities", ListOf(gpu.priorities())},
                      {"pci", Printable(gpu.pci())},
                      {"numa", gpu.has_numa() ? nlohmann::json(gpu.numa()) : nlohmann::json()},
                      {"pci_group", gpu.has_pci_group() ? nlohmann::json(gpu.pci_group()) : nlohmann::json()}});
    }
  }
  return {{"gpus", std::move(gpus)}};
}

nlohmann::json AsJson(const GrantState& grant) {
  nlohmann::json parts = nlohmann::json::array();
  for (const GrantPart& part : grant.parts()) parts.push_back(AsJson(part));
  return {{"grant", Printable(grant.grant())},
          {"state", Printable(grant.state())},
          {"reason", Printable(grant.reason(), kPlacerSentenceBytesMax)},
          {"holder", Printable(grant.holder())},
          {"parts", std::move(parts)},
          {"asked", AsJson(grant.asked())}};
}

nlohmann::json AsJson(const control::v1::GrantList& list) {
  nlohmann::json grants = nlohmann::json::array();
  for (const GrantState& grant : list.grants()) grants.push_back(AsJson(grant));
  return {{"grants", std::move(grants)}};
}

std::vector<std::vector<std::string>> ServersRows(const ServerList& list, bool wide) {
  std::vector<std::vector<std::string>> rows = {{"SERVER", "ADDRESSES", "GPUS", "STATE"}};
  if (wide) rows[0].insert(rows[0].begin() + 3, {"MODELS", "RELEASE"});
  for (const ServerState& server : list.servers()) {
    rows.push_back({Printable(server.server()), Joined(server.addresses(), ","), std::to_string(server.gpus_size()),
                    server.problem().empty() ? "offered" : "not offered: " + Printable(server.problem())});
    if (wide) {
      const std::string release = server.release().empty() ? "-" : Printable(server.release());
      rows.back().insert(rows.back().begin() + 3, {ModelsOf(server), release});
    }
  }
  return rows;
}
std::string ServersText(const ServerList& list, bool wide) { return TableText(ServersRows(list, wide)); }

std::vector<std::vector<std::string>> GpusRows(const ServerList& list, bool wide) {
  std::vector<std::vector<std::string>> rows = {{"SERVER", "GPU", "MODEL", "SHARE GRANTED", "SHARE OTHERS", "SHARE FREE",
                                                 "MEMORY GRANTED", "MEMORY OTHERS", "MEMORY FREE"}};
  if (wide) rows[0].insert(rows[0].end(), {"CONTEXT", "PCIE", "NUMA", "UUID"});
  for (const ServerState& server : list.servers()) {
    for (int i = 0; i < server.gpus_size(); ++i) {
      const PoolGpuState& gpu = server.gpus(i);
      rows.push_back({Printable(server.server()), std::to_string(i), Printable(gpu.model()), ShareText(gpu.granted_share()),
                      ShareText(gpu.others_share()), ShareText(FreeShare(gpu)), BytesText(gpu.granted_memory_bytes()),
                      BytesText(gpu.others_memory_bytes()), BytesText(FreeBytes(gpu))});
      if (!wide) continue;
      rows.back().insert(rows.back().end(), {BytesText(gpu.context_bytes()), gpu.pci().empty() ? "-" : Printable(gpu.pci()),
                                             gpu.has_numa() ? std::to_string(gpu.numa()) : "-", Printable(gpu.uuid())});
    }
  }
  return rows;
}
std::string GpusText(const ServerList& list, bool wide) { return TableText(GpusRows(list, wide)); }

std::vector<std::vector<std::string>> GrantsRows(const control::v1::GrantList& list, bool wide) {
  std::vector<std::vector<std::string>> rows = {{"GRANT", "STATE", "HOLDER", "GPUS", "REASON"}};
  if (wide) rows[0].insert(rows[0].begin() + 4, {"ASKED", "UUIDS"});
  for (const GrantState& grant : list.grants()) {
    const std::string reason = Printable(grant.reason(), kPlacerSentenceBytesMax);
    rows.push_back({Printable(grant.grant()), Printable(grant.state()), Printable(grant.holder()), GpusOf(grant),
                    reason.empty() ? "-" : reason});
    if (wide) rows.back().insert(rows.back().begin() + 4, {Describe(grant.asked()), UuidsOf(grant)});
  }
  return rows;
}
std::string GrantsText(const control::v1::GrantList& list, bool wide) { return TableText(GrantsRows(list, wide)); }

std::vector<std::vector<std::string>> RequestsRows(const control::v1::GrantList& waiting) {
  std::vector<std::vector<std::string>> rows = {{"GRANT", "HOLDER", "ASKED", "REASON"}};
  for (const GrantState& grant : waiting.grants()) {
    rows.push_back({Printable(grant.grant()), Printable(grant.holder()), Describe(grant.asked()),
                    Printable(grant.reason(), kPlacerSentenceBytesMax)});
  }
  return rows;
}

control::v1::GrantList WaitingOf(const control::v1::GrantList& list) {
  control::v1::GrantList waiting;
  for (const GrantState& grant : list.grants()) {
    if (grant.state() == "waiting") *waiting.add_grants() = grant;
  }
  return waiting;
}

std::string AskedOf(const GrantState& grant) { return Describe(grant.asked()); }

std::string GpusOf(const GrantState& grant) {
  std::string text;
  for (const GrantPart& part : grant.parts()) text += (text.empty() ? "" : "; ") + Describe(part);
  return text.empty() ? "-" : text;
}

}  // namespace tessera
