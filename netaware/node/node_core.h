// What a node decides: which of the placer's orders its server can keep, which tickets it takes, and what it tells of itself.
//
//   Result<std::unique_ptr<NodeCore>> core = NodeCore::Open(store, "gpu7", out, now);
//   RETURN_IF_ERROR(core->Welcomed(welcome, now));     // the placer has taken this node
//   core->Take(order, now); core->Ask(question, now); core->TakeList(list, now); ...
//   const int64_t again_ms = core->Turn(now);          // after each batch of these, and then at the latest
//
// A hold is in the ledger first, then its vGPUs are made, then it is answered; if the broker refuses, nothing of it is left.
// Orders are carried out by Turn(), all that came since the last one with one write to the disk. Each is answered once; the same
// number again has the same answer.
//
// No I/O but by `store` and NodeOut; time is an argument. One thread.
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

// As the messages of protocol/control/node.proto.
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
  std::vector<Others> others{};  // by GPU
  std::vector<Grant> grants{};
};
// Of tesserad, for somebody who shows a ticket. `id` comes back with the answer.
struct ShownTicket {
  uint64_t id = 0;
  std::string holder{};
  std::vector<std::byte> ticket{};
};

// What a core says to others. None of it waits, nor calls the core.
class NodeOut {
 public:
  virtual ~NodeOut() = default;
  virtual void AnswerOrder(uint64_t number, const Status& status) = 0;
  virtual void CallBroker(const GrantVgpus::Call& call) = 0;
  // `vgpus`: which the session is in, of Ok.
  virtual void AnswerTicket(uint64_t id, const Status& status, const std::string& vgpus) = 0;
};

class NodeCore {
 public:
  static constexpr int64_t kMakeMs = 5'000;     // for the broker to make or delete what an order asks for
  static constexpr int64_t kTicketMs = 3'500;   // for a ticket's answer
  static constexpr int64_t kHoldMs = 60'000;    // a hold's longest time
  static constexpr int64_t kExpireMs = 100;     // between two looks at what has ended
  static constexpr size_t kTicketsMax = 1'024;  // that wait for an answer
  static constexpr size_t kOrdersKept = 1'024;  // whose answers are known

  // Reads what is there. kInvalidArgument: it is damaged. `store` and `out` outlive the core. `server`: this server's host id.
  static Result<std::unique_ptr<NodeCore>> Open(Store& store, std::string server, NodeOut& out, NodeTime now);

  // The placer. Not Ok: this node takes no orders of it, and ends the stream. kPermissionDenied: a newer placer was seen; others
  // as of KnownPlacer::Learn().
  Status Welcomed(const NodeWelcome& welcome, NodeTime now);
  void TakeClock(int64_t placer_ms, NodeTime now) { placer_.Learn(placer_ms, now); }
  void Take(NodeOrder order);
  // Its stream has ended: nothing of that is answered any more.
  void PlacerLost();

  // The broker.
  void TakeList(ServerVgpus list) { vgpus_.Take(std::move(list)); }
  void BrokerLost() { vgpus_.Lost(); }
  void CallDone(const std::string& vgpu, const Status& status, NodeTime now) { vgpus_.CallDone(vgpu, status, now.steady_ms); }

  // tesserad.
  void Ask(ShownTicket shown, NodeTime now);
  void DaemonLost() { tickets_.clear(); }

  // When it is to be called again, of CLOCK_MONOTONIC in milliseconds.
  int64_t Turn(NodeTime now);

  NodeBeat Beat(NodeTime now) const;
  // Null: the broker has told of none yet.
  const ServerVgpus* list() const { return vgpus_.list(); }
  const GrantLedger& ledger() const { return *ledger_; }

 private:
  // A grant whose vGPUs are to be there before somebody is answered.
  struct Making {
    std::vector<uint64_t> orders{};
    bool takes_in = false;  // by a ticket alone: it is granted when they are there
    int64_t until_ms = 0;   // steady
  };
  // An order that ended a grant, whose vGPUs are to go.
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
  // `state`: of its grant.
  Status CheckShown(const Ticket& ticket, const std::string& holder, TicketScene::Grant state, NodeTime now) const;
  void AnswerTicket(uint64_t id, const std::string& holder, const Status& status, const std::string& vgpus = "");
  Status CarryOne(LedgerOrder::Kind kind, const Ticket& ticket, uint64_t epoch, NodeTime now);
  void Settle(NodeTime now);
  void SettleMaking(NodeTime now);
  void SettleTickets(NodeTime now);
  // Nothing is left of it: those who wait hear why.
  void GiveUp(const Ticket::Grant& grant, const Making& making, const Status& why, NodeTime now);
  int64_t NextMs() const;

  const std::string server_;
  NodeOut& out_;
  const std::unique_ptr<GrantLedger> ledger_;
  KnownPlacer placer_;
  GrantVgpus vgpus_;
  uint64_t epoch_ = 0;  // of the placer whose stream it is
  std::vector<NodeOrder> orders_;
  std::map<uint64_t, std::optional<Status>> answers_;  // of this stream's orders, by number; nothing: it waits
  std::map<Ticket::Grant, Making> making_;
  std::vector<Ending> ending_;
  std::deque<WaitingTicket> tickets_;
  int64_t expire_ms_ = 0;
};

}  // namespace tessera
