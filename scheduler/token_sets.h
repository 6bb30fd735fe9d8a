// Gives a session that works on several GPUs of one server their tokens together. It joins the GpuTimes of these GPUs.
//
//   sets.Set(session, {{0, vgpu_of_0}, {1, vgpu_of_1}});       // the parts in which it works; GpuTime::SetTogether() on each
//   sets.Assemble(times, now_ns, [&](const SetOrder& order) { ... });   // after each batch of decisions
//
// A session's work has one order. While it waits for one GPU's token its work on the other GPUs stands still, and its tokens
// there are of no use. Kernels that wait for one another on two GPUs even use up both tokens. So when a GPU's policy finds that
// such a session's vGPU is next, all its vGPUs are appointed for the time at which the last of the GPUs is free for them. Until
// then others use these GPUs. Then all tokens are granted at once, with the same end. While the session waits for one of them it
// falls behind on all.
//
// A vGPU does not join if it is at its limit, or too far ahead of its share on its GPU (Policy::MayJoin). In that case, or when a
// GPU is free too late, each GPU gives its token alone to a session that has work for it, as without sets. After an attempt that
// left a GPU idle for nothing the next one waits for kRetryMinNs. The wait doubles with each further failure. It is the
// session's, also when it works on other GPUs now, or on one: else one that changes its GPUs all the time would leave them idle
// all the time. Where two sets want the same GPUs the first that was appointed goes first. No GPU is held for longer than
// GpuTime::kAssembleNs, so sets cannot block one another for ever.
//
// It owns no GpuTime. Equal calls give equal orders. Each order is an event of one GpuTime, so the record of one GPU can be
// replayed alone. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/gpu_time.h"

namespace tessera {

// One call of GpuTime: SetWaitsElsewhere(), or Appoint() or Grant() with a Decide() right after it, at the same time.
struct SetOrder {
  enum class Kind { kElsewhere, kAppoint, kGrant };
  Kind kind = Kind::kAppoint;
  size_t gpu = 0;
  uint32_t id = 0;    // the vGPU, or the session
  int64_t at_ns = 0;  // the time of Appoint(); the end of Grant(); 0 or 1 for SetWaitsElsewhere()
};

class TokenSets {
 public:
  static constexpr int64_t kRetryMinNs = 20 * kMillisecondNs;
  static constexpr int64_t kRetryMaxNs = 640 * kMillisecondNs;
  // No appointment is made further ahead: too much may change by then.
  static constexpr int64_t kPlanMaxNs = 20 * kMillisecondNs;

  struct Part {
    size_t gpu = 0;
    VgpuId vgpu = 0;
    SessionId session = 0;
    friend bool operator==(const Part&, const Part&) = default;
  };
  using Tell = std::function<void(const SetOrder&)>;

  // Sets the session's parts, one for each of its GPUs. Fewer than two parts mean that it has no set for now. Call it before a
  // part leaves its GPU.
  void Set(uint64_t session, std::span<const Part> parts);
  // The session ends.
  void Forget(uint64_t session) { sets_.erase(session); }
  // Makes what orders are due. `gpus`: all GPUs of the server; Decide(now_ns) was called on each that had news. `tell` carries
  // out each order before it returns.
  void Assemble(std::span<const GpuTime* const> gpus, int64_t now_ns, const Tell& tell);

 private:
  struct Failures {
    VgpuId vgpu = 0;
    uint64_t count = 0;  // VgpuState::sets_failed
  };
  struct Members {
    std::vector<Part> parts;              // none, or two at least
    std::map<size_t, Failures> failed{};  // by GPU, also of those that it worked on before
    bool granted = false;                 // and nothing has failed since
    int64_t retry_ns = kRetryMinNs;
    int64_t retry_at_ns = 0;  // until then each GPU gives its token alone
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
