// A pool in one thread whose placer dies at its store's operations: the placer's core, nodes with ledgers of their own, and jobs
// that ask, have, and give back. The messages that arrive while the placer dies are random; nothing else is.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "netaware/node/node_core.h"
#include "netaware/service/placer_core.h"
#include "netaware/store/memory_store.h"

namespace tessera {

// A server: its node, and a broker that carries out its orders and counts.
class PoolNode : public NodeOut {
 public:
  static constexpr int kGpus = 2;
  static constexpr uint64_t kMemory = uint64_t{80} << 30, kContext = uint64_t{1} << 29;

  explicit PoolNode(int machine) : machine_(machine), id_("server" + std::to_string(machine)) { Open(0); }

  // The node is killed, and another one begins with the ledger.
  void Open(int64_t now_ms) {
    Lose();
    core_ = std::move(NodeCore::Open(*store_, id_, *this, {now_ms, now_ms})).value();
    ServerVgpus list;
    for (int i = 0; i < kGpus; ++i) list.gpus.push_back({Uuid(i), kMemory, kContext, 0});
    for (const auto& [name, vgpu] : vgpus_) list.vgpus.push_back({.name = name, .gpu = vgpu.gpu, .request = vgpu.request});
    core_->TakeList(std::move(list));
    Turn(now_ms);
  }
  // The node as it would register.
  JoiningNode Joining(int64_t now_ms) const {
    JoiningNode joins;
    joins.server = {.id = id_, .addresses = {"unix:/" + id_}};
    for (int i = 0; i < kGpus; ++i)
      joins.server.gpus.push_back({.uuid = Uuid(i), .model = "H100", .all = {kWholeShare, kMemory}, .context_bytes = kContext});
    joins.state = State(now_ms);
    return joins;
  }
  NodeState State(int64_t now_ms) const {
    NodeState state{.others = std::vector<GpuAmount>(kGpus)};
    for (const NodeBeat::Grant& each : core_->Beat({now_ms, now_ms}).grants)
      state.grants.push_back({*ParseGrant(each.grant), each.is_held, each.sessions});
    return state;
  }
  void Welcome(const PlacerCore& placer, int64_t now_ms) {
    joined_ = true;
    const Status taken = core_->Welcomed({"c", placer.epoch(), {placer.public_key()}, now_ms}, {now_ms, now_ms});
    EXPECT_TRUE(taken.ok()) << taken.message();
  }
  // The stream has ended: what was not read or sent is lost.
  void Lose() {
    joined_ = false;
    inbox_.clear();
    answers_.clear();
    if (core_ != nullptr) core_->PlacerLost();
  }
  void Send(const PlacerOrder& order) {
    if (joined_) inbox_.push_back(order);
  }
  // Reads up to `most` orders; what it answers is what happens next.
  void Read(size_t most, int64_t now_ms) {
    for (; most > 0 && !inbox_.empty(); --most) {
      const PlacerOrder& order = inbox_.front();
      core_->Take({order.number, KindOf(order.kind), GrantText(order.grant), order.ticket, order.until_ms});
      inbox_.pop_front();
    }
    Turn(now_ms);
  }
  std::vector<std::pair<uint64_t, bool>> TakeAnswers() { return std::exchange(answers_, {}); }
  void Turn(int64_t now_ms) {
    const NodeTime now{now_ms, now_ms};
    core_->Turn(now);
    while (!calls_.empty()) {
      for (const GrantVgpus::Call& call : std::exchange(calls_, {})) {
        if (call.kind == GrantVgpus::Call::Kind::kCreate) {
          vgpus_[call.vgpu.name] = call.vgpu;
        } else {
          vgpus_.erase(call.vgpu.name);
        }
        core_->CallDone(call.vgpu.name, Status::Ok(), now);
      }
      core_->Turn(now);
    }
  }

  // The ledger's grants that have a part here, held or granted.
  bool Has(const GrantId& grant) const {
    const LedgerGrant* const there = core_->ledger().Find(grant);
    return there != nullptr && there->state != LedgerGrant::State::kReleased;
  }
  // Checks that no GPU is promised, nor handed out, more than once.
  void Check() const {
    std::map<std::string, GpuAmount> promised;
    for (const auto& [id, grant] : core_->ledger().grants()) {
      if (grant.state == LedgerGrant::State::kReleased) continue;
      for (size_t i = 0; i < grant.ticket.vgpus.size(); ++i) {
        GpuAmount& gpu = promised[WantedOf(grant.ticket, i).gpu];
        gpu.share += grant.ticket.vgpus[i].request;
        gpu.memory_bytes += grant.ticket.vgpus[i].memory_bytes + kContext;
      }
    }
    for (const auto& [uuid, all] : promised) {
      ASSERT_LE(all.share, kWholeShare) << id_ << " " << uuid;
      ASSERT_LE(all.memory_bytes, kMemory) << id_ << " " << uuid;
    }
    std::map<std::string, double> handed_out;
    for (const auto& [name, vgpu] : vgpus_) ASSERT_LE(handed_out[vgpu.gpu] += vgpu.request, 1.000001) << id_ << " " << vgpu.gpu;
  }
  void Rest(int64_t until_ms) { rests_until_ms_ = until_ms; }
  bool rests(int64_t now_ms) const { return now_ms < rests_until_ms_; }
  bool joined() const { return joined_; }
  bool has_read_all() const { return inbox_.empty(); }
  size_t vgpus() const { return vgpus_.size(); }
  const std::string& id() const { return id_; }

 private:
  std::string Uuid(int gpu) const {
    char text[64];
    std::snprintf(text, sizeof(text), "GPU-%08x-0000-0000-0000-%012x", machine_, gpu);
    return text;
  }
  static NodeOrder::Kind KindOf(PlacerOrder::Kind kind) {
    switch (kind) {
      case PlacerOrder::Kind::kHold: return NodeOrder::Kind::kHold;
      case PlacerOrder::Kind::kCancel: return NodeOrder::Kind::kCancel;
      case PlacerOrder::Kind::kConfirm: return NodeOrder::Kind::kConfirm;
      case PlacerOrder::Kind::kRelease: return NodeOrder::Kind::kRelease;
    }
    return NodeOrder::Kind::kUnknown;
  }
  void AnswerOrder(uint64_t number, const Status& status) override { answers_.push_back({number, status.ok()}); }
  void CallBroker(const GrantVgpus::Call& call) override { calls_.push_back(call); }
  void AnswerTicket(uint64_t, const Status&, const std::string&) override {}

  const int machine_;
  const std::string id_;
  std::unique_ptr<Store> store_ = MakeMemoryStore();
  std::unique_ptr<NodeCore> core_;
  bool joined_ = false;
  int64_t rests_until_ms_ = 0;
  std::deque<PlacerOrder> inbox_;
  std::vector<std::pair<uint64_t, bool>> answers_;
  std::vector<GrantVgpus::Call> calls_;
  std::map<std::string, WantedVgpu> vgpus_;
};

// A job, and the answers that it got.
struct PoolJob {
  enum class State { kAsks, kHas, kEnds, kGone, kHungUp };
  State state = State::kAsks;
  PlacerCore::Ask ask{};
  GrantId id{};
  bool asked = false;               // the placer that is there
  bool released = false;            // it has taken the release, and it is being stored
  std::vector<PlacedPart> parts{};  // that it got, without tickets
  int64_t ends_ms = 0, renew_ms = 0;
};

class DeadlyPool : public PlacerCore::Outside {
 public:
  explicit DeadlyPool(unsigned seed) : random_(seed) {
    for (int machine = 1; machine <= 3; ++machine) nodes_.push_back(std::make_unique<PoolNode>(machine));
    Start();
  }

  // Whatever comes next, of about 10 ms. `new_jobs`: that may still come.
  void Step(int* new_jobs);
  // Nothing lives and nothing is on its way.
  bool IsIdle() const;
  // Checks that have to hold at each moment.
  void Check() const;
  // Checks that have to hold when all jobs have ended.
  void CheckEmpty() const;

  int deaths() const { return deaths_; }
  int granted() const { return granted_; }

 private:
  // For each operation of the store: the first try dies before it counts, the second one after that, the third one lives.
  static constexpr int kDeaths = 2;
  static constexpr size_t kJobsMax = 10;

  size_t Below(size_t bound) { return random_() % bound; }
  void Start();
  void Die(bool stored);
  // Writes what waits, or dies of it.
  void Write();
  void Meet(PoolNode& node);
  void Live(PoolJob& job);
  void Hear(PoolJob& job, const GrantView& view);
  void HearAll(size_t of_ten);

  void Send(const std::string& server, const PlacerOrder& order) override {
    for (const auto& node : nodes_) {
      if (node->id() == server) node->Send(order);
    }
  }
  void Tell(const GrantView& view) override { told_.push_back(view); }
  void Keep(StoreTransaction transaction, std::optional<GrantId> grant) override {
    waiting_.push_back({std::move(transaction), grant});
  }

  std::mt19937 random_;
  std::unique_ptr<Store> disk_ = MakeMemoryStore();
  const std::string key_ = TicketSigner::Make()->PrivatePem();
  uint64_t epoch_ = 0;
  int64_t now_ms_ = 1'000'000;
  std::vector<std::unique_ptr<PoolNode>> nodes_;
  std::unique_ptr<PlacerCore> core_;
  std::deque<std::pair<StoreTransaction, std::optional<GrantId>>> waiting_;
  std::vector<GrantView> told_;
  std::map<GrantId, PoolJob> jobs_;
  std::map<std::string, int> died_at_;
  int deaths_ = 0, granted_ = 0, number_ = 0;
};

}  // namespace tessera
