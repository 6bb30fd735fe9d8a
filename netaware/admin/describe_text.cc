#include "netaware/admin/describe_text.h"

#include <fmt/core.h>

#include <string_view>
#include <utility>
#include <vector>

#include "netaware/admin/pool_text.h"
#include "netaware/admin/server_text.h"
#include "protocol/base/bytes_text.h"
#include "protocol/base/nearest_name.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

using control::v1::GrantList;
using control::v1::GrantPart;
using control::v1::GrantState;
using control::v1::ServerList;
using control::v1::ServerState;

Status NotFound(const char* what, const std::string& name, const std::vector<std::string>& names) {
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string nearest = Printable(NearestName(name, known));
  return Status(StatusCode::kNotFound, fmt::format("there is no {} '{}' in the pool: {}", what, Printable(name),
                                                   nearest.empty() ? "it has none" : "the nearest name is '" + nearest + "'"));
}

// The grants that have a part of the GPU, each with its part.
nlohmann::json GrantsOf(const GrantList& grants, const std::string& uuid) {
  nlohmann::json list = nlohmann::json::array();
  for (const GrantState& grant : grants.grants()) {
    for (const GrantPart& part : grant.parts()) {
      for (const control::v1::GrantGpu& gpu : part.gpus()) {
        if (gpu.uuid() != uuid) continue;
        list.push_back({{"grant", Printable(grant.grant())},
                        {"holder", Printable(grant.holder())},
                        {"share", gpu.share()},
                        {"limit", gpu.limit()},
                        {"memory_bytes", gpu.memory_bytes()},
                        {"sessions", part.sessions()}});
      }
    }
  }
  return list;
}

nlohmann::json GpusOfServer(const ServerState& server, const GrantList& grants) {
  ServerList alone;
  *alone.add_servers() = server;
  nlohmann::json gpus = GpusAsJson(alone).at("gpus");
  for (int i = 0; i < server.gpus_size(); ++i) gpus[static_cast<size_t>(i)]["grants"] = GrantsOf(grants, server.gpus(i).uuid());
  return gpus;
}

std::string Field(std::string_view name, const std::string& value) {
  return fmt::format("{:<12}{}\n", name, value.empty() ? "-" : value);
}

std::string Words(const nlohmann::json& list) {
  std::string text;
  for (const auto& word : list) text += (text.empty() ? "" : ", ") + word.get<std::string>();
  return text;
}

std::string Sessions(uint32_t number) { return fmt::format("{} session{}", number, number == 1 ? "" : "s"); }

std::string ShareOf(const nlohmann::json& gpu) {
  return fmt::format("{:.6g} granted, {:.6g} of others, {:.6g} free", gpu.at("granted_share").get<double>(),
                     gpu.at("others_share").get<double>(), gpu.at("free_share").get<double>());
}

std::string MemoryOf(const nlohmann::json& gpu) {
  return fmt::format("{} granted, {} of others, {} free", BytesAt(gpu, "granted_memory_bytes"),
                     BytesAt(gpu, "others_memory_bytes"), BytesAt(gpu, "free_memory_bytes"));
}

// The GPU's place in its host.
std::string PlaceOf(const nlohmann::json& gpu) {
  const auto pci = gpu.at("pci").get<std::string>();
  std::string text = pci.empty() ? "" : "PCIe " + pci;
  const auto add = [&](const char* what, const nlohmann::json& number) {
    if (!number.is_null()) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, number.get<uint32_t>());
  };
  add("NUMA node", gpu.at("numa"));
  add("PCIe switches of GPU", gpu.at("pci_group"));
  return text;
}

std::string GrantLines(const nlohmann::json& gpu, const char* indent) {
  std::string text;
  for (const auto& grant : gpu.at("grants")) {
    text += fmt::format("{}grant {} of {}: {:.6g}:{:.6g} of it, {}, {}\n", indent, grant.at("grant").get<std::string>(),
                        grant.at("holder").get<std::string>(), grant.at("share").get<double>(), grant.at("limit").get<double>(),
                        BytesAt(grant, "memory_bytes"), Sessions(grant.at("sessions").get<uint32_t>()));
  }
  return text;
}

}  // namespace

Result<nlohmann::json> ServerAsJson(const ServerList& servers, const GrantList& grants, const std::string& name) {
  std::vector<std::string> names;
  for (const ServerState& server : servers.servers()) {
    names.push_back(server.server());
    if (server.server() != name) continue;
    nlohmann::json addresses = nlohmann::json::array();
    for (const std::string& address : server.addresses()) addresses.push_back(Printable(address));
    return nlohmann::json{{"server", Printable(name)},
                          {"addresses", std::move(addresses)},
                          {"offered", server.problem().empty()},
                          {"problem", Printable(server.problem())},
                          {"away", Printable(server.away())},
                          {"cordon", CordonAsJson(server.has_cordon() ? &server.cordon() : nullptr)},
                          {"cordon_text", server.has_cordon() ? Describe(server.cordon()) : ""},
                          {"gpus", GpusOfServer(server, grants)}};
  }
  return NotFound("server", name, names);
}

Result<nlohmann::json> GpuAsJson(const ServerList& servers, const GrantList& grants, const std::string& name) {
  std::vector<std::string> names;
  for (const ServerState& server : servers.servers()) {
    for (int i = 0; i < server.gpus_size(); ++i) {
      const std::string place = fmt::format("{}/{}", server.server(), i), uuid = server.gpus(i).uuid();
      if (name != place && name != uuid) {
        names.insert(names.end(), {place, uuid});
        continue;
      }
      nlohmann::json gpu = GpusOfServer(server, grants)[static_cast<size_t>(i)];
      gpu["problem"] = Printable(server.problem());
      return gpu;
    }
  }
  return NotFound("GPU", name, names);
}

std::string ServerText(const nlohmann::json& server) {
  const auto problem = server.at("problem").get<std::string>(), away = server.at("away").get<std::string>();
  std::string text = Field("server", server.at("server").get<std::string>()) + Field("addresses", Words(server.at("addresses"))) +
                     Field("state", problem.empty() ? "offered" : "not offered: " + problem) +
                     Field("connection", away.empty() ? "joined" : away) +
                     Field("cordon", server.at("cordon_text").get<std::string>());
  for (const auto& gpu : server.at("gpus")) {
    const std::string place = PlaceOf(gpu);
    text +=
        fmt::format("GPU {}  {}, {}{}\n  time: {}\n  memory: {}\n", gpu.at("gpu").get<int>(), gpu.at("model").get<std::string>(),
                    gpu.at("uuid").get<std::string>(), place.empty() ? "" : ", " + place, ShareOf(gpu), MemoryOf(gpu)) +
        GrantLines(gpu, "  ");
  }
  return text;
}

std::string GpuText(const nlohmann::json& gpu) {
  const auto problem = gpu.at("problem").get<std::string>();
  return Field("GPU", fmt::format("{}/{}", gpu.at("server").get<std::string>(), gpu.at("gpu").get<int>())) +
         Field("uuid", gpu.at("uuid").get<std::string>()) + Field("model", gpu.at("model").get<std::string>()) +
         Field("state", problem.empty() ? "offered" : "not offered: " + problem) + Field("time", ShareOf(gpu)) +
         Field("memory", fmt::format("{}; {} in all, {} for a context", MemoryOf(gpu), BytesAt(gpu, "memory_bytes"),
                                     BytesAt(gpu, "context_bytes"))) +
         Field("place", PlaceOf(gpu)) + Field("isolation", Words(gpu.at("isolations"))) +
         Field("priority", Words(gpu.at("priorities"))) + GrantLines(gpu, "  ");
}

std::string GrantText(const GrantState& grant) {
  std::string text = Field("grant", Printable(grant.grant())) + Field("holder", Printable(grant.holder())) +
                     Field("state", Printable(grant.state())) +
                     Field("reason", Printable(grant.reason(), kPlacerSentenceBytesMax)) + Field("asked", AskedOf(grant));
  for (const GrantPart& part : grant.parts()) {
    text += fmt::format("  {}: {}\n", Printable(part.server()), Sessions(part.sessions()));
    for (const control::v1::GrantGpu& gpu : part.gpus()) {
      text += fmt::format("    {}, {}: {:.6g}:{:.6g} of it, {}\n", Printable(gpu.model()), Printable(gpu.uuid()), gpu.share(),
                          gpu.limit(), BytesText(gpu.memory_bytes()));
    }
  }
  return text;
}

}  // namespace tessera
