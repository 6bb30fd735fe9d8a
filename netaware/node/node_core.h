// The decisions of a node: it accepts or refuses the placer's orders and the tickets of jobs, and composes the node's reports.
//
//   Result<std::unique_ptr<NodeCore>> core = NodeCore::Open(store, "gpu7", out, now);
//   RETURN_IF_ERROR(core->Welcomed(welcome, now));     // the placer has accepted this node
//   core->Take(order, now); core->Ask(question, now); core->TakeList(list, now); ...
//   const int64_t again_ms = core->Turn(now);          // after each batch of these, and again at `again_ms` at the latest
//
// A hold is stored in the ledger first, then its vGPUs are made, then the order is answered; if the broker refuses, the hold is
// removed again. Turn() carries out all orders since the last Turn() with one write to the disk. Each order is answered once; a
// repeated number gets the same answer.
//
// All I/O goes through `store` and NodeOut; time is an argument. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "netaware/ledger/grant_ledger.h"
#include "netaware/node/grant_vgpus.h"
#include "netaware/node/known_placer.h"
#include "netaware/node/server_vgpus.h"
#include "netaware/store/store.h"
#include "protocol/base/status.h"

namespace tessera {

// These structs correspond to the messages of protocol/control/node.proto.
struct NodeWelcome {
  std::string cluster{};
  uint64_t epoch = 0;
  std::vector<std::string> ticket_keys{};
  int64_t now_ms = 0;
};
struct NodeOrder {
  enum class Kind { kHold, kCancel, kConfirm, kRelease, kUnknown };
  uint64_t number = 0;
  Kind kind = Kind::kUnknown;
  std::string grant{};
  std::vector<std::byte> ticket{};
  int64_t until_ms = 0;
};
struct NodeBeat {
  struct Others {
    double share = 0;
    uint64_t memory_bytes = 0;
  };
  struct Grant {
    std::string grant{};
    bool is_held = false;
    uint32_t sessions = 0;
  };
  std::vector<Others> others{};  // one for each GPU
  std::vector<Grant> grants{};
};
// A question of tesserad about a ticket that a client has presented. The answer repeats `id`.
struct ShownTicket {
  uint64_t id = 0;
  std::string holder{};
  std::vector<std::byte> ticket{};
};

// The core's output. No function may block or call the core.
class NodeOut {
 public:
  virtual ~NodeOut() = default;
  virtual void AnswerOrder(uint64_t number, const Status& status) = 0;
  virtual void CallBroker(const GrantVgpus::Call& call) = 0;
  // `vgpus`: the names of the session's vGPUs, if `status` is Ok.
  virtual void AnswerTicket(uint64_t id, const Status& status, const std::string& vgpus) = 0;
};

class NodeCore {
 public:
  static constexpr int64_t kMakeMs = 5'000;     // for the broker to make or delete the vGPUs of an order
  static constexpr int64_t kTicketMs = 3'500;   // for the answer to a ticket request
  static constexpr int64_t kHoldMs = 60'000;    // the longest life of a hold
  static constexpr int64_t kExpireMs = 100;     // between two checks for expired grants
  static constexpr size_t kTicketsMax = 1'024;  // tickets that wait for an answer
  static constexpr size_t kOrdersKept = 1'024;  // orders whose answers are kept

  // Reads the stored state. kInvalidArgument: it is damaged. `store` and `out` have to outlive the core. `server`: this
  // server's host id.
  static Result<std::unique_ptr<NodeCore>> Open(Store& store, std::string server, NodeOut& out, NodeTime now);

  // Called for the placer's welcome. Not Ok: this node takes no orders from it, and ends the stream. kPermissionDenied: the
  // node has met a newer placer; other errors as from KnownPlacer::Learn().
  Status Welcomed(const NodeWelcome& welcome, NodeTime now);
  void TakeClock(int64_t placer_ms, NodeTime now) { placer_.Learn(placer_ms, now); }
  void Take(NodeOrder order);
  // The placer's stream has ended: its orders are not answered any more.
  void PlacerLost();

  // Events from the broker.
  void TakeList(ServerVgpus list) { vgpus_.Take(std::move(list)); }
  void BrokerLost() { vgpus_.Lost(); }
  void CallDone(const std::string& vgpu, const Status& status, NodeTime now) { vgpus_.CallDone(vgpu, status, now.steady_ms); }

  // Events from tesserad.
  void Ask(ShownTicket shown, NodeTime now);
  void DaemonLost() { tickets_.clear(); }

  // Does all work that is due. Returns the time of the next call at the latest: CLOCK_MONOTONIC in milliseconds.
  int64_t Turn(NodeTime now);

  NodeBeat Beat(NodeTime now) const;
  // The broker's last list. Null: none has arrived yet.
  const ServerVgpus* list() const { return vgpus_.list(); }
  const GrantLedger& ledger() const { return *ledger_; }

 private:
  // A grant whose orders and tickets are answered when its vGPUs exist.
  struct Making {
    std::vector<uint64_t> orders{};
    bool takes_in = false;  // known from a ticket alone: it is confirmed when its vGPUs exist
    int64_t until_ms = 0;   // by CLOCK_MONOTONIC
  };
  // An order that ended a grant: it is answered when the grant's vGPUs are deleted.
  struct Ending {
    uint64_t order = 0;
    Ticket::Grant grant{};
    int64_t until_ms = 0;
  };
  struct WaitingTicket {
    uint64_t id = 0;
    std::string holder{};
    Ticket::Grant grant{};
    int64_t until_ms = 0;
  };

  NodeCore(Store& store, std::string server, NodeOut& out, std::unique_ptr<GrantLedger> ledger, KnownPlacer placer)
      : server_(std::move(server)), out_(out), ledger_(std::move(ledger)), placer_(std::move(placer)) {}

  void Expire(NodeTime now);
  void CarryOrders(NodeTime now);
  Status LedgerOrderOf(const NodeOrder& order, NodeTime now, LedgerOrder* carried) const;
  void Carried(const NodeOrder& order, const LedgerOrder& carried, NodeTime now);
  void AnswerOrder(uint64_t number, const Status& status);
  // `state`: the state of the ticket's grant.
  Status CheckShown(const Ticket& ticket, const std::string& holder, TicketScene::Grant state, NodeTime now) const;
  void AnswerTicket(uint64_t id, const std::string& holder, const Status& status, const std::string& vgpus = "");
  Status CarryOne(LedgerOrder::Kind kind, const Ticket& ticket, uint64_t epoch, NodeTime now);
  void Settle(NodeTime now);
  void SettleMaking(NodeTime now);
  void SettleTickets(NodeTime now);
  // Cancels the hold and answers the grant's waiting orders and tickets with `why`.
  void GiveUp(const Ticket::Grant& grant, const Making& making, const Status& why, NodeTime now);
  int64_t NextMs() const;

  const std::string server_;
  NodeOut& out_;
  const std::unique_ptr<GrantLedger> ledger_;
  KnownPlacer placer_;
  GrantVgpus vgpus_;
  uint64_t epoch_ = 0;  // the epoch of the current stream's placer
  std::vector<NodeOrder> orders_;
  std::map<uint64_t, std::optional<Status>> answers_;  // answers to this stream's orders, by number; nullopt: not answered yet
  std::map<Ticket::Grant, Making> making_;
  std::vector<Ending> ending_;
  std::deque<WaitingTicket> tickets_;
  int64_t expire_ms_ = 0;
};

}  // namespace tessera
