#include "netaware/admin/status_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "netaware/admin/pool_text.h"
#include "netaware/admin/vgpu_text.h"
#include "protocol/base/bytes_text.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

using control::v1::GrantList;
using control::v1::GrantPart;
using control::v1::GrantState;
using control::v1::ServerList;
using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kReasonBytes = 100;  // the printed bytes of a reason on a screen
constexpr const char* kShares[] = {"granted_share", "others_share", "free_share"};
constexpr const char* kSizes[] = {"memory_bytes", "granted_memory_bytes", "others_memory_bytes", "free_memory_bytes"};

bool IsWaiting(const GrantState& grant) { return grant.state() == "waiting"; }

uint32_t SessionsOf(const GrantState& grant) {
  uint32_t sessions = 0;
  for (const GrantPart& part : grant.parts()) sessions += part.sessions();
  return sessions;
}

// Adds the value at `key` of `from` to that of `to`. Shares are rounded to parts per million.
void Add(const nlohmann::json& from, const char* key, nlohmann::json* to) {
  const nlohmann::json before = to->value(key, nlohmann::json(0));
  if (from.at(key).is_number_float() || before.is_number_float()) {
    (*to)[key] = std::round((before.get<double>() + from.at(key).get<double>()) * 1e6) / 1e6;
  } else {
    (*to)[key] = before.get<uint64_t>() + from.at(key).get<uint64_t>();
  }
}

std::string Share(const nlohmann::json& of, const char* key) { return fmt::format("{:.6g}", of.at(key).get<double>()); }
std::string Number(const nlohmann::json& of, const char* key) { return std::to_string(of.at(key).get<uint64_t>()); }

std::string Counted(const nlohmann::json& of, const char* key, const char* word) {
  const auto number = of.at(key).get<uint64_t>();
  return fmt::format("{} {}{}", number, word, number == 1 ? "" : "s");
}

Rows ServersRows(const nlohmann::json& status) {
  Rows rows = {{"SERVER", "GPUS", "GRANTED", "OTHERS", "FREE", "MEMORY", "MEMORY FREE", "GRANTS", "SESSIONS", "STATE"}};
  for (const nlohmann::json& server : status.at("servers")) {
    const auto problem = server.at("problem").get<std::string>();
    rows.push_back({server.at("server").get<std::string>(), std::to_string(server.at("gpus").size()),
                    Share(server, "granted_share"), Share(server, "others_share"), Share(server, "free_share"),
                    BytesAt(server, "memory_bytes"), BytesAt(server, "free_memory_bytes"), Number(server, "grants"),
                    Number(server, "sessions"), problem.empty() ? "offered" : "not offered: " + problem});
  }
  return rows;
}

// Waiting grants come first.
Rows RowsOf(const GrantList& grants, bool wide) {
  Rows rows = {{"GRANT", "STATE", "HOLDER", "SESSIONS", "GPUS", "REASON"}};
  for (const bool waiting : {true, false}) {
    for (const GrantState& grant : grants.grants()) {
      if (IsWaiting(grant) != waiting) continue;
      const std::string reason = Printable(grant.reason(), wide ? kPlacerSentenceBytesMax : kReasonBytes);
      rows.push_back({Printable(grant.grant()), Printable(grant.state()), Printable(grant.holder()),
                      std::to_string(SessionsOf(grant)), waiting ? AskedOf(grant) : GpusOf(grant),
                      reason.empty() ? "-" : reason});
    }
  }
  return rows;
}

std::string TotalsLine(const std::string& placer, const nlohmann::json& totals) {
  const auto servers = totals.at("servers").get<uint64_t>(), offered = totals.at("offered_servers").get<uint64_t>();
  const auto waiting = totals.at("waiting").get<uint64_t>();
  return fmt::format("{}: {}{}, {}; of the GPUs' time {} granted, {} free; {} of memory free; {}{}, {}\n", Printable(placer),
                     Counted(totals, "servers", "server"), servers == offered ? "" : fmt::format(" ({} offered)", offered),
                     Counted(totals, "gpus", "GPU"), Share(totals, "granted_share"), Share(totals, "free_share"),
                     BytesAt(totals, "free_memory_bytes"), Counted(totals, "grants", "grant"),
                     waiting == 0 ? "" : fmt::format(" and {} that wait{}", waiting, waiting == 1 ? "s" : ""),
                     Counted(totals, "sessions", "session"));
}

}  // namespace

nlohmann::json StatusAsJson(const std::string& placer, const ServerList& servers, const GrantList& grants) {
  nlohmann::json waiting = nlohmann::json::array(), granted = nlohmann::json::array();
  std::map<std::string, std::pair<uint64_t, uint64_t>> of_server;  // grants and sessions
  uint64_t sessions = 0;
  for (const GrantState& grant : grants.grants()) {
    nlohmann::json& list = IsWaiting(grant) ? waiting : granted;
    list.push_back(AsJson(grant));
    list.back()["sessions"] = SessionsOf(grant);
    sessions += SessionsOf(grant);
    for (const GrantPart& part : grant.parts()) {
      ++of_server[part.server()].first;
      of_server[part.server()].second += part.sessions();
    }
  }
  nlohmann::json totals = {{"servers", servers.servers_size()}, {"offered_servers", 0},      {"gpus", 0},
                           {"grants", granted.size()},          {"waiting", waiting.size()}, {"sessions", sessions}};
  for (const char* key : kShares) totals[key] = 0.0;
  for (const char* key : kSizes) totals[key] = 0;
  nlohmann::json list = nlohmann::json::array();
  for (const control::v1::ServerState& server : servers.servers()) {
    ServerList alone;
    *alone.add_servers() = server;
    nlohmann::json one = ServersAsJson(alone).at("servers").at(0);
    one["gpus"] = GpusAsJson(alone).at("gpus");
    one["grants"] = of_server[server.server()].first;
    one["sessions"] = of_server[server.server()].second;
    for (const char* key : kShares) one[key] = 0.0;
    for (const char* key : kSizes) one[key] = 0;
    for (const nlohmann::json& gpu : one["gpus"]) {
      for (const char* key : kShares) Add(gpu, key, &one);
      for (const char* key : kSizes) Add(gpu, key, &one);
    }
    const bool is_offered = one["offered"].get<bool>();
    for (const char* key : kShares) {
      if (is_offered || key != std::string("free_share")) Add(one, key, &totals);
    }
    for (const char* key : kSizes) {
      if (is_offered || key != std::string("free_memory_bytes")) Add(one, key, &totals);
    }
    totals["offered_servers"] = totals["offered_servers"].get<uint64_t>() + (is_offered ? 1 : 0);
    totals["gpus"] = totals["gpus"].get<uint64_t>() + one["gpus"].size();
    list.push_back(std::move(one));
  }
  return {{"schema_version", 1},        {"placer", Printable(placer)},   {"totals", std::move(totals)},
          {"servers", std::move(list)}, {"waiting", std::move(waiting)}, {"grants", std::move(granted)}};
}

std::string StatusText(const std::string& placer, const ServerList& servers, const GrantList& grants, bool wide) {
  const nlohmann::json status = StatusAsJson(placer, servers, grants);
  const Rows of_servers = ServersRows(status);
  std::string text = TotalsLine(placer, status.at("totals")) + TableText(of_servers);
  if (wide) text += GpusText(servers, true);
  Rows rows = RowsOf(grants, wide);
  if (rows.size() == 1) return text;
  // The lines outside the rows: those above the table, the head, and the line about omitted grants.
  const size_t above = 1 + of_servers.size() + 2;
  const size_t room = std::max<size_t>(4, kScreenLines - std::min(kScreenLines, above));
  const size_t all = rows.size() - 1;
  if (!wide && all > room + 1) rows.resize(1 + room);
  text += TableText(rows);
  if (rows.size() - 1 < all) text += fmt::format("and {} more: tessera get grants\n", all - (rows.size() - 1));
  return text;
}

}  // namespace tessera
