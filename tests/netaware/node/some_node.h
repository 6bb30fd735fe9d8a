// A node's core with a placer's key, a broker that can refuse and be away, and a store that can be opened again.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "netaware/node/node_core.h"
#include "netaware/store/memory_store.h"
#include "protocol/ticket/ticket_keys.h"

namespace tessera {

inline constexpr int64_t kSteady = 1'000'000;
inline constexpr int64_t kWall = 1'799'999'000'000;
// The GPUs of its tickets.
inline constexpr char kFirstGpu[] = "GPU-01010101-0101-0101-0101-010101010101";
inline constexpr char kSecondGpu[] = "GPU-02020202-0202-0202-0202-020202020202";
inline constexpr int64_t kPlacer = 1'800'000'000'000;  // the placer's clock then

class NodeTest : public ::testing::Test, protected NodeOut {
 protected:
  NodeTest() { Start(); }

  void Start() {
    core = std::move(NodeCore::Open(*store, "gpu7", *this, Now())).value();
    vgpus.clear();
  }
  NodeTime Now() const { return {kSteady + passed_ms, kWall + passed_ms}; }
  void Welcome(uint64_t epoch = 3) {
    ASSERT_TRUE(core->Welcomed({"west", epoch, {signer.PublicPem()}, kPlacer + passed_ms}, Now()).ok());
  }
  Ticket TicketOf(uint8_t grant, uint64_t epoch = 3) const {
    Ticket ticket{.cluster = "west",
                  .server = "gpu7",
                  .holder = "name:alice",
                  .epoch = epoch,
                  .issued_ms = kPlacer,
                  .expires_ms = kPlacer + 600'000,
                  .processes = 2};
    ticket.grant.fill(std::byte{grant});
    ticket.vgpus = {TicketVgpu{.request = 250'000, .limit = 500'000, .memory_bytes = 1 << 30}, TicketVgpu{.request = 100'000}};
    ticket.vgpus[0].gpu.fill(std::byte{1});
    ticket.vgpus[1].gpu.fill(std::byte{2});
    return ticket;
  }
  static std::string Id(uint8_t grant) {
    Ticket::Grant id;
    id.fill(std::byte{grant});
    return GrantText(id);
  }
  static std::string Name(uint8_t grant, int place) { return "grant-" + Id(grant) + "-" + std::to_string(place); }

  NodeOrder Hold(uint64_t number, uint8_t grant, uint64_t epoch = 3) const {
    return {number, NodeOrder::Kind::kHold, Id(grant), signer.Sign(TicketOf(grant, epoch)), kPlacer + passed_ms + 60'000};
  }
  static NodeOrder Order(uint64_t number, NodeOrder::Kind kind, uint8_t grant) {
    return {number, kind, Id(grant), {}, kPlacer + 600'000};
  }
  void Give(const NodeOrder& order) {
    core->Take(order);
    Turn();
  }
  // Has the broker do all that it is asked for.
  void Turn() {
    next_ms = core->Turn(Now());
    while (broker_answers && !calls.empty()) {
      for (const GrantVgpus::Call& call : std::exchange(calls, {})) core->CallDone(call.vgpu.name, Do(call), Now());
      next_ms = core->Turn(Now());
    }
  }
  Status Do(const GrantVgpus::Call& call) {
    made += call.kind == GrantVgpus::Call::Kind::kCreate;
    if (call.kind == GrantVgpus::Call::Kind::kDelete) {
      vgpus.erase(call.vgpu.name);
    } else if (refused.contains(call.vgpu.name)) {
      return Status(StatusCode::kResourceExhausted, "it is 5 % too much");
    } else {
      vgpus[call.vgpu.name] = call.vgpu;
    }
    return Status::Ok();
  }
  void Connect() {
    ServerVgpus list{.vgpus = others, .gpus = {{kFirstGpu, 80 << 20, 1 << 20, 0.01}, {kSecondGpu, 40 << 20, 1 << 20, 0}}};
    for (const auto& [name, vgpu] : vgpus)
      list.vgpus.push_back({.name = name,
                            .gpu = vgpu.gpu,
                            .request = vgpu.request,
                            .processes = vgpu_processes == 0 ? vgpu.processes : vgpu_processes,
                            .sessions = 2});
    core->TakeList(std::move(list));
    Turn();
  }
  void Pass(int64_t ms) {
    passed_ms += ms;
    Turn();
  }
  // The result: "done", a sentence, or empty: it was not answered.
  std::string Answer(uint64_t number) const { return answers.contains(number) ? answers.at(number) : ""; }
  std::string Show(const std::vector<std::byte>& ticket, const std::string& holder = "name:alice") {
    core->Ask({++shown, holder, ticket}, Now());
    Turn();
    return Shown(shown);
  }
  std::string Show(uint8_t grant) { return Show(signer.Sign(TicketOf(grant))); }
  std::string Shown(uint64_t id) const { return tickets.contains(id) ? tickets.at(id) : ""; }
  std::string Names(uint8_t grant) const { return Name(grant, 0) + "+" + Name(grant, 1); }
  std::vector<std::string> There() const {
    std::vector<std::string> names;
    for (const auto& [name, vgpu] : vgpus) names.push_back(name);
    return names;
  }

  void AnswerOrder(uint64_t number, const Status& status) override {
    answered += 1;
    answers[number] = status.ok() ? "done" : status.message();
  }
  void CallBroker(const GrantVgpus::Call& call) override { calls.push_back(call); }
  void AnswerTicket(uint64_t id, const Status& status, const std::string& names) override {
    EXPECT_FALSE(tickets.contains(id)) << "answered twice";
    tickets[id] = status.ok() ? names : status.message();
    codes[id] = status.code();
  }

  TicketSigner signer = std::move(TicketSigner::Make()).value();
  std::unique_ptr<Store> store = MakeMemoryStore();
  std::unique_ptr<NodeCore> core;
  int64_t passed_ms = 0;
  int64_t next_ms = 0;
  bool broker_answers = true;
  std::vector<ServerVgpu> others{};           // at the broker
  std::map<std::string, WantedVgpu> vgpus{};  // of grants, at the broker
  uint32_t vgpu_processes = 0;                // as the broker reports it; 0: as it was asked for
  std::set<std::string> refused{};
  std::vector<GrantVgpus::Call> calls{};  // that wait
  int made = 0;
  int answered = 0;
  std::map<uint64_t, std::string> answers{};
  std::map<uint64_t, std::string> tickets{};
  std::map<uint64_t, StatusCode> codes{};
  uint64_t shown = 0;
};

}  // namespace tessera
