// A placer's core in a test's hands: its servers, its store and its clock. One thread.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "netaware/service/placer_core.h"

namespace tessera {

inline constexpr uint64_t kGiB = uint64_t{1} << 30;

inline std::string Uuid(int machine, int number) {
  char text[64];
  std::snprintf(text, sizeof(text), "GPU-%08x-0000-0000-0000-%012x", machine, number);
  return text;
}

inline JoiningNode Node(int machine, int gpus, std::vector<NodeGrantState> grants = {}) {
  JoiningNode node;
  node.server.id = "server" + std::to_string(machine);
  node.server.addresses = {"unix:/" + node.server.id};
  node.host = "host";
  for (int i = 0; i < gpus; ++i)
    node.server.gpus.push_back(
        {.uuid = Uuid(machine, i), .model = "H100", .all = {kWholeShare, 80 * kGiB}, .context_bytes = kGiB / 2});
  node.state = {.others = std::vector<GpuAmount>(static_cast<size_t>(gpus)), .grants = std::move(grants)};
  return node;
}

// A placer's surroundings: servers that obey its orders if `obeys`, and a store that keeps what it gets unless it is `full`.
class World : public PlacerCore::Outside {
 public:
  World() { core = Make(); }

  std::unique_ptr<PlacerCore> Make() {
    Result<TicketSigner> signer = TicketSigner::FromPem(key);
    return std::make_unique<PlacerCore>(PlacerCore::Options{.cluster = "c", .ticket_ms = 600'000, .host = "host"},
                                        std::move(*signer), ++epoch, *this);
  }
  void Send(const std::string& server, const PlacerOrder& order) override { orders.push_back({server, order}); }
  void Tell(const GrantView& view) override { told[view.grant.ask.id] = view; }
  void Keep(StoreTransaction transaction, std::optional<GrantId> grant) override {
    changed.push_back({transaction.changes, !full});
    for (const StoreChange& change : transaction.changes) {
      if (full) continue;
      if (change.value) {
        kept[change.key] = *change.value;
      } else {
        kept.erase(change.key);
      }
    }
    for (const StoreRecord& record : transaction.records) {
      if (!full) records.push_back(ReadAudit(record).value());
    }
    if (full) failed.insert(failed.end(), transaction.records.begin(), transaction.records.end());
    if (grant) stored.push_back(*grant);
    transactions.push_back(std::move(transaction));
  }

  // Carries on until nothing is left to do now.
  void Settle() {
    for (int i = 0; i < 20; ++i) {
      core->Turn(now_ms);
      for (const auto& [changes, done] : std::exchange(changed, {})) core->Kept(changes, done);
      for (const GrantId& grant : std::exchange(stored, {})) core->Stored(grant, !full, now_ms);
      for (const auto& [server, order] : std::exchange(orders, {})) {
        log.push_back({server, order});
        if (obeys && order.kind == PlacerOrder::Kind::kHold)
          core->Answered(server, order.number, !refuses.contains(server), now_ms);
      }
    }
  }
  GrantId Ask(const std::string& request, double share = 1, int64_t wait_ms = -1, const std::string& holder = "name:alice") {
    PlacerCore::Ask ask{.holder = holder, .request_id = request, .wait_ms = wait_ms};
    ask.wish.share = static_cast<uint32_t>(share * kWholeShare);
    Result<GrantId> id = core->Place(ask, now_ms);
    EXPECT_TRUE(id.ok());
    Settle();
    return *id;
  }
  Grant::State StateOf(const GrantId& id) {
    const auto view = core->View(id);
    return view ? view->state : told.at(id).state;
  }
  std::string Orders(PlacerOrder::Kind kind) {
    std::string servers;
    for (const auto& [server, order] : log) {
      if (order.kind == kind) servers += server.back();
    }
    log.clear();
    return servers;
  }
  // Starts another placer with what the store has kept.
  void Restart() {
    core = Make();
    std::vector<StoreEntry> entries;
    for (const auto& [name, value] : kept) entries.push_back({name, value, 1});
    ASSERT_TRUE(core->Load(entries, now_ms).ok());
    orders.clear();
    stored.clear();
    changed.clear();
  }

  const std::string key = [] {
    Result<TicketSigner> made = TicketSigner::Make();
    return made->PrivatePem();
  }();
  uint64_t epoch = 0;
  int64_t now_ms = 1'000'000;
  bool obeys = true, full = false;
  std::set<std::string> refuses;
  std::map<std::string, std::string> kept;
  std::map<GrantId, GrantView> told;
  std::vector<std::pair<std::string, PlacerOrder>> orders, log;
  std::vector<GrantId> stored;
  std::vector<std::pair<std::vector<StoreChange>, bool>> changed;  // changes that the core is to be notified of
  std::vector<AuditRecord> records;                                // those in the store
  std::vector<StoreRecord> failed;                                 // those that the full store has refused
  std::vector<StoreTransaction> transactions;
  std::unique_ptr<PlacerCore> core;
};

using Kind = PlacerOrder::Kind;
using State = Grant::State;

}  // namespace tessera
