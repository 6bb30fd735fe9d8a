// Which vGPUs the grants of this server are at its broker, what of them is there, and which calls bring the one to the other.
//
//   GrantVgpus vgpus;
//   vgpus.Take(list);                                                   // the broker's whole list, at once and after each change
//   for (GrantVgpus::Call& call : vgpus.Turn(ledger.grants(), now_ms)) broker.Send(call);
//   vgpus.CallDone(call.vgpu.name, status, now_ms);
//   if (vgpus.IsThere(ticket)) ...
//
// Lists and answers may cross: a call that comes too late (there already, or gone already) counts as done, so nothing is harmed.
// Time is CLOCK_MONOTONIC in milliseconds, and an argument. Pure; one thread.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netaware/ledger/ledger_grant.h"
#include "netaware/node/server_vgpus.h"
#include "protocol/base/status.h"
#include "protocol/ticket/ticket.h"

namespace tessera {

// A vGPU's name: "grant-", 32 digits, "-", and its place in the part from 0.
std::string GrantVgpuName(const Ticket::Grant& grant, size_t place);
// nullopt: no grant's vGPU is named so.
std::optional<Ticket::Grant> GrantOfVgpu(std::string_view name);
// What a session of the grant is in: its vGPUs' names, joined by '+'.
std::string GrantVgpuNames(const Ticket& ticket);
// As the broker is asked for it.
WantedVgpu WantedOf(const Ticket& ticket, size_t place);

class GrantVgpus {
 public:
  static constexpr int64_t kAgainMs = 1'000;    // after the broker refused
  static constexpr int64_t kBusyAgainMs = 100;  // after it could not be asked
  static constexpr int64_t kEndsMs = 3'000;     // in which the sessions of a vGPU that was deleted end
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  struct Call {
    enum class Kind { kCreate, kDelete };
    Kind kind = Kind::kCreate;
    WantedVgpu vgpu{};  // of kDelete: the name and the GPU alone
  };

  void Take(ServerVgpus list);
  // The broker cannot be reached: calls that were under way get no answer.
  void Lost();
  // Whether there is a list since the last Lost().
  bool is_connected() const { return is_connected_; }
  // The last list; it stays after Lost(). Null: there never was one.
  const ServerVgpus* list() const { return list_ ? &*list_ : nullptr; }

  // Ok also of a vGPU that was there before, or gone. kUnavailable: the broker was not asked; another error: it refused. A
  // refusal within kEndsMs after a delete of the same GPU does not count, since the driver takes a while to end a worker and the
  // broker gives its part to nobody else before: the vGPU is asked for again.
  void CallDone(const std::string& name, const Status& status, int64_t now_ms);
  // What is to be called now, each once: deletes what is of no held or granted one, creates what these have not. The broker may
  // take calls in another order, so what is created waits for what is deleted, kBusyAgainMs at most.
  std::vector<Call> Turn(const std::map<Ticket::Grant, LedgerGrant>& grants, int64_t now_ms);
  // When Turn() has something to do though nothing happens; kNever: not before.
  int64_t NextMs() const { return next_ms_; }

  // The ledger has other grants than at the last Turn().
  void LedgerChanged() { next_ms_ = 0; }
  // What the broker refused of a grant is asked for anew, without waiting.
  void TryAnew(const Ticket& ticket);
  // All vGPUs of the ticket are there.
  bool IsThere(const Ticket& ticket) const;
  // One of the grant's is there, or may be.
  bool IsAnyThere(const Ticket::Grant& grant) const;
  // Why one of the ticket's is not there: what the broker said last; Ok: it has not refused.
  Status Refusal(const Ticket& ticket) const;

 private:
  struct Failed {
    Status why;
    int64_t again_ms = 0;
  };
  // Not in force, or of another GPU (of the same grant's hold before): it is made anew.
  struct Made {
    std::string gpu;
    bool is_in_force = false;

    bool Is(const WantedVgpu& wanted) const { return is_in_force && gpu == wanted.gpu; }
  };

  // Whether sessions of a deleted vGPU may be what the broker has refused the call for.
  bool IsInTheWay(const Call& call, int64_t now_ms);
  bool MayCall(const std::string& name, int64_t now_ms);
  bool MayCreate(int64_t now_ms);

  bool is_connected_ = false;
  std::optional<ServerVgpus> list_;
  std::map<std::string, Made, std::less<>> there_{};     // by name, made by the API
  std::map<std::string, Call, std::less<>> calls_{};     // under way
  std::map<std::string, Failed, std::less<>> failed_{};  // last calls that failed
  std::map<std::string, int64_t, std::less<>> ends_{};   // by GPU: until when sessions of a deleted vGPU may be there
  int64_t deletes_since_ms_ = kNever;                    // one delete or another is under way since then
  int64_t next_ms_ = 0;
};

}  // namespace tessera
