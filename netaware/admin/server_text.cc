#include "netaware/admin/server_text.h"

#include <fmt/core.h>

#include <utility>

#include "netaware/admin/pool_text.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

using control::v1::GrantState;
using control::v1::ServerChange;
using control::v1::ServerCordon;

// The end of a sentence: when the server's present grants end.
std::string EndOf(const PoolOptions& asked) {
  if (!asked.deadline_ms) return "what is there ends by itself";
  return "what is there ends " + (*asked.deadline_ms == 0 ? "now" : "in " + TimeText(*asked.deadline_ms) + " at the latest");
}

}  // namespace

std::string TimeText(int64_t ms) {
  if (ms != 0 && ms % 3'600'000 == 0) return fmt::format("{} h", ms / 3'600'000);
  if (ms != 0 && ms % 60'000 == 0) return fmt::format("{} min", ms / 60'000);
  return fmt::format("{:g} s", static_cast<double>(ms) / 1'000);
}

nlohmann::json CordonAsJson(const ServerCordon* cordon) {
  if (cordon == nullptr) return nullptr;
  nlohmann::json json = {{"reason", Printable(cordon->reason())}, {"by", Printable(cordon->by())}, {"drains", cordon->drains()}};
  json["ends_in_ms"] = cordon->has_ends_in_ms() ? nlohmann::json(cordon->ends_in_ms()) : nlohmann::json(nullptr);
  return json;
}

std::string Describe(const ServerCordon& cordon) {
  std::string text = (cordon.reason().empty() ? "" : Printable(cordon.reason()) + " ") + "(by " + Printable(cordon.by()) + ")";
  if (!cordon.drains()) return text;
  if (!cordon.has_ends_in_ms()) return text + "; drains, what is there ends by itself";
  return text + (cordon.ends_in_ms() == 0 ? "; drained" : "; drains, what is left ends in " + TimeText(cordon.ends_in_ms()));
}

nlohmann::json AsJson(const ServerChange& change, const PoolOptions& asked) {
  nlohmann::json grants = nlohmann::json::array();
  for (const GrantState& grant : change.grants()) grants.push_back(AsJson(grant));
  return {{"server", Printable(change.server())},
          {"cordon", CordonAsJson(change.has_cordon() ? &change.cordon() : nullptr)},
          {"dry_run", asked.dry_run},
          {"grants", std::move(grants)}};
}

std::string Describe(const ServerChange& change, const PoolOptions& asked) {
  const std::string server = Printable(change.server());
  const int there = change.grants_size();
  const std::string grants =
      there == 0 ? "no grant is there" : fmt::format("{} grant{} there", there, there == 1 ? " is" : "s are");
  if (asked.command == "uncordon") return fmt::format("server {} is offered again\n", server);
  if (asked.command == "remove") return fmt::format("server {} is removed from the pool\n", server);
  if (asked.command == "cordon") {
    return fmt::format("server {} is cordoned: nothing new is placed there; {}{}\n", server, grants,
                       there == 0 ? "" : (there == 1 ? ", and goes on" : ", and go on"));
  }
  std::string text = asked.dry_run ? fmt::format("server {} would be drained: {}", server, grants)
                                   : fmt::format("server {} is drained: nothing new is placed there; {}", server, grants);
  if (there != 0) text += "; " + EndOf(asked);
  text += "\n";
  for (const GrantState& grant : change.grants())
    text += fmt::format("  grant {} of {}: {}\n", Printable(grant.grant()), Printable(grant.holder()), GpusOf(grant));
  return text;
}

}  // namespace tessera
