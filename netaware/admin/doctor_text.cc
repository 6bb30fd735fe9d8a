#include "netaware/admin/doctor_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "protocol/base/printable.h"

namespace tessera {
namespace {

using control::v1::WhoamiAnswer;

constexpr size_t kNotOfferedTold = 3;

nlohmann::json VersionOf(const std::string& url, const WhoamiAnswer& answer, const std::string& own_release) {
  const std::string text = fmt::format("{} answers: tessera-placer {} of the pool '{}'", Printable(url),
                                       Printable(answer.release()), Printable(answer.cluster()));
  if (answer.release() == own_release) return Finding("good", "placer", text);
  return Finding("note", "placer", text + ", and this is release " + own_release, "install the same release on both sides");
}

nlohmann::json RoleOf(const WhoamiAnswer& answer) {
  const std::string advice = "ask whoever runs the placer to name you in its file of roles (tessera-placer --policy)";
  if (answer.holder().empty()) return Finding("problem", "role", "the placer cannot tell who this is", advice);
  const std::string who = "the placer sees " + Printable(answer.holder());
  if (answer.role() == "admin") return Finding("good", "role", who + ", an administrator, who may do everything");
  if (answer.role() == "tenant") return Finding("good", "role", who + ", a tenant, who gets GPUs and sees what is his own");
  if (answer.role() == "viewer") return Finding("note", "role", who + ", a viewer, who sees everything and gets no GPUs", advice);
  if (answer.role() == "server") {
    return Finding("note", "role", who + ", a server of the pool, which gets no GPUs",
                   "show a certificate of 'tessera keys client' for jobs");
  }
  return Finding("problem", "role", who + ", who has no role there and gets no GPUs", advice);
}

nlohmann::json ClocksOf(const WhoamiAnswer& answer, int64_t asked_ms, int64_t heard_ms) {
  const int64_t unsure_ms = std::max<int64_t>(0, heard_ms - asked_ms) / 2;
  const int64_t ahead_ms = asked_ms + unsure_ms - answer.now_ms();
  const int64_t apart_ms = std::abs(ahead_ms);
  const std::string text = fmt::format("this host's is {:.1f} s {} the placer's", static_cast<double>(apart_ms) / 1000,
                                       ahead_ms < 0 ? "behind" : "ahead of");
  if (apart_ms - unsure_ms <= kClocksApartMs)
    return Finding("good", "clock", apart_ms < 1000 ? "this host's is that of the placer" : text);
  return Finding("note", "clock", text + ", by which tickets end", "set both by NTP (chrony, systemd-timesyncd)");
}

}  // namespace

nlohmann::json Finding(const char* grade, const char* subject, const std::string& text, const std::string& advice) {
  nlohmann::json finding = {{"grade", grade}, {"subject", subject}, {"text", text}};
  if (!advice.empty()) finding["advice"] = advice;
  return finding;
}

nlohmann::json FindingsOf(const std::string& url, const WhoamiAnswer& answer, int64_t asked_ms, int64_t heard_ms,
                          const std::string& own_release) {
  return nlohmann::json::array({VersionOf(url, answer, own_release), RoleOf(answer), ClocksOf(answer, asked_ms, heard_ms)});
}

nlohmann::json FindingOf(const control::v1::ServerList& servers) {
  size_t gpus = 0, not_offered = 0;
  std::string why;
  for (const control::v1::ServerState& server : servers.servers()) {
    gpus += static_cast<size_t>(server.gpus_size());
    if (server.problem().empty() || server.gpus_size() == 0 || ++not_offered > kNotOfferedTold) continue;
    why += fmt::format("{}{} {}", why.empty() ? "" : "; ", Printable(server.server()), Printable(server.problem()));
  }
  const auto count = static_cast<size_t>(servers.servers_size());
  if (count == 0) return Finding("note", "pool", "it has no server", "start one for it: tesserad --placer ADDRESS");
  std::string text = fmt::format("{} server{} with {} GPU{}", count, count == 1 ? "" : "s", gpus, gpus == 1 ? "" : "s");
  if (not_offered == 0) return Finding("good", "pool", text + ", all of them offered");
  text += fmt::format("; {} not offered: {}{}", not_offered, why, not_offered > kNotOfferedTold ? " ..." : "");
  return Finding("note", "pool", text, "see 'tessera get servers'");
}

}  // namespace tessera
