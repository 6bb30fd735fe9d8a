// Tokens of several GPUs together: what joins the GpuTimes of one server for sessions that work on more than one of its GPUs.
//
//   sets.Set(session, {{0, vgpu_of_0}, {1, vgpu_of_1}});       // the parts in which it works; GpuTime::SetTogether() on each
//   sets.Assemble(times, now_ns, [&](const SetOrder& order) { ... });   // after each batch of decisions
//
// A session's work has one order. While it waits for one GPU's token its work on another one stands still, and the token there is
// of no use; kernels that wait for one another on two GPUs use up both. So when a GPU's policy finds that such a session's vGPU
// is next, its vGPUs on the other GPUs are appointed for the time at which the last of these GPUs is free for it. Until then
// others use them. Then all are granted at once, with the same end. While the session waits for one of them it falls behind on
// all.
//
// Whose turn it is on the one GPU does not make it anybody's on another: a vGPU that is too far ahead of its share there
// (Policy::MayPreempt), or at its limit, does not join. Then, and where the others come too late, each GPU gives the token by
// itself, as without sets, to a session that has work for it. An attempt that left a GPU idle for nothing is not repeated for
// kRetryMinNs, and twice as long each time that the next one does so, too. Of two sets that want the same GPUs the one that was
// appointed first goes first. So nobody waits for anybody for ever: no GPU is held for longer than GpuTime::kAssembleNs, whatever
// the others do.
//
// It owns no GpuTime. Equal calls give equal orders, and each order is an event of the GpuTime that it is told to: its record can
// be replayed by itself. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/gpu_time.h"

namespace tessera {

// A call of GpuTime::SetWaitsElsewhere(); or of Appoint() or Grant(), and of Decide() behind it at the same time.
struct SetOrder {
  enum class Kind { kElsewhere, kAppoint, kGrant };
  Kind kind = Kind::kAppoint;
  size_t gpu = 0;
  uint32_t id = 0;    // the vGPU, or the session
  int64_t at_ns = 0;  // of Appoint(); the end of a grant; 0 or 1
};

class TokenSets {
 public:
  static constexpr int64_t kRetryMinNs = 20 * kMillisecondNs;
  static constexpr int64_t kRetryMaxNs = 640 * kMillisecondNs;
  // Nobody is appointed for a later time: by then all may be different.
  static constexpr int64_t kPlanMaxNs = 20 * kMillisecondNs;

  struct Part {
    size_t gpu = 0;
    VgpuId vgpu = 0;
    SessionId session = 0;
    friend bool operator==(const Part&, const Part&) = default;
  };
  using Tell = std::function<void(const SetOrder&)>;

  // The parts of a session, one of each of its GPUs; less than two: it has no set (any more). Before a part leaves its GPU.
  void Set(uint64_t session, std::span<const Part> parts);
  // `gpus`: all of the server, decided as of `now_ns` where there is news. `tell` carries an order out before it returns.
  void Assemble(std::span<const GpuTime* const> gpus, int64_t now_ns, const Tell& tell);

 private:
  struct Members {
    std::vector<Part> parts;
    uint64_t failed = 0;   // VgpuState::sets_failed of all its parts
    bool is_new = true;    // what failed before is another's
    bool granted = false;  // and nothing has failed since
    int64_t retry_ns = kRetryMinNs;
    int64_t retry_at_ns = 0;  // each GPU by itself until then
  };
  struct Round {
    std::span<const GpuTime* const> gpus;
    int64_t now_ns;
    const Tell& tell;
  };

  static void SayWhoWaits(const Round& round, const Members& set);
  static void NoteFailures(const Round& round, Members& set);
  static int64_t AssembledAtNs(const Round& round, const Members& set);
  bool Answer(const Round& round, size_t gpu);
  static bool GiveAlone(const Round& round, size_t gpu);
  static bool Appoint(const Round& round, const Members& set, int64_t at_ns);
  static void Grant(const Round& round, Members& set);

  std::map<uint64_t, Members> sets_;
};

}  // namespace tessera
