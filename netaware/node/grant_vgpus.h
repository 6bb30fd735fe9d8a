// Compares the vGPUs that the server's grants need with the vGPUs that the broker has, and returns the calls that remove the
// difference.
//
//   GrantVgpus vgpus;
//   vgpus.Take(list);                                                   // the broker's whole list, after each change
//   for (GrantVgpus::Call& call : vgpus.Turn(ledger.grants(), now_ms)) broker.Send(call);
//   vgpus.CallDone(call.vgpu.name, status, now_ms);
//   if (vgpus.IsThere(ticket)) ...
//
// Lists and answers may cross: a call for a vGPU that exists already, or is deleted already, counts as done. Time is
// CLOCK_MONOTONIC in milliseconds, and an argument. Pure; one thread.
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
// nullopt: the name is not that of a grant's vGPU.
std::optional<Ticket::Grant> GrantOfVgpu(std::string_view name);
// The names of the grant's vGPUs, joined by '+': a session of the grant uses all of them.
std::string GrantVgpuNames(const Ticket& ticket);
// The vGPU at `place`, as the create call requests it from the broker.
WantedVgpu WantedOf(const Ticket& ticket, size_t place);

class GrantVgpus {
 public:
  static constexpr int64_t kAgainMs = 1'000;    // retry delay after the broker refused
  static constexpr int64_t kBusyAgainMs = 100;  // retry delay after the broker could not be reached
  static constexpr int64_t kEndsMs = 3'000;     // the sessions of a deleted vGPU end within this time
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  struct Call {
    enum class Kind { kCreate, kDelete };
    Kind kind = Kind::kCreate;
    WantedVgpu vgpu{};  // kDelete: only the name and the GPU are set
  };

  void Take(ServerVgpus list);
  // The connection to the broker is lost: pending calls get no answer.
  void Lost();
  // True if a list has arrived since the last Lost().
  bool is_connected() const { return is_connected_; }
  // The last list; it stays after Lost(). Null: none has arrived yet.
  const ServerVgpus* list() const { return list_ ? &*list_ : nullptr; }

  // `status` is Ok also if the vGPU existed already, or was deleted already. kUnavailable: the call did not reach the broker;
  // another error: the broker refused it. A refusal of a create within kEndsMs after a delete on the same GPU does not count:
  // the driver takes a while to end a worker, and until then the broker does not hand out its part. The create is retried.
  void CallDone(const std::string& name, const Status& status, int64_t now_ms);
  // Returns the calls to make now, each once: deletes of vGPUs that no held or granted grant needs, creates of vGPUs that such
  // grants lack. The broker may carry out calls in another order, so creates wait for pending deletes, kBusyAgainMs at most.
  std::vector<Call> Turn(const std::map<Ticket::Grant, LedgerGrant>& grants, int64_t now_ms);
  // The next time at which Turn() has work to do without a new event; kNever: none.
  int64_t NextMs() const { return next_ms_; }

  // The ledger's grants have changed since the last Turn().
  void LedgerChanged() { next_ms_ = 0; }
  // Retries without delay the calls for this grant that the broker refused.
  void TryAnew(const Ticket& ticket);
  // True if all vGPUs of the ticket exist.
  bool IsThere(const Ticket& ticket) const;
  // True if a vGPU of the grant exists, or a call for one is pending.
  bool IsAnyThere(const Ticket::Grant& grant) const;
  // The broker's last error for a vGPU of the ticket; Ok: it has refused none.
  Status Refusal(const Ticket& ticket) const;

 private:
  struct Failed {
    Status why;
    int64_t again_ms = 0;
  };
  // A vGPU at the broker. One that is not in force, or is on another GPU (from an earlier hold of the same grant), is deleted
  // and made anew.
  struct Made {
    std::string gpu;
    bool is_in_force = false;

    bool Is(const WantedVgpu& wanted) const { return is_in_force && gpu == wanted.gpu; }
  };

  // True if the broker may have refused the call because sessions of a deleted vGPU have not ended yet.
  bool IsInTheWay(const Call& call, int64_t now_ms);
  bool MayCall(const std::string& name, int64_t now_ms);
  bool MayCreate(int64_t now_ms);

  bool is_connected_ = false;
  std::optional<ServerVgpus> list_;
  std::map<std::string, Made, std::less<>> there_{};     // by name; made by the control API
  std::map<std::string, Call, std::less<>> calls_{};     // pending
  std::map<std::string, Failed, std::less<>> failed_{};  // by name: the last call, if it failed
  std::map<std::string, int64_t, std::less<>> ends_{};   // by GPU: the time until which sessions of a deleted vGPU may exist
  int64_t deletes_since_ms_ = kNever;                    // since this time at least one delete has been pending
  int64_t next_ms_ = 0;
};

}  // namespace tessera
