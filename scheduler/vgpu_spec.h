// What a vGPU is promised: its share of one GPU's time. Plain values; any thread may use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// A vGPU of one GPU: a small number, given by GpuTime and used again once the vGPU is gone.
using VgpuId = uint32_t;

enum class Priority {
  kProtected,  // gets its token on arrival
  kNormal,
  kBestEffort,  // takes what others leave, where the policy tells classes apart
};

// What becomes of a session that runs on and on beyond its tokens while others wait.
enum class Overrun {
  kBill,  // it is billed
  kEnd,   // and it is ended
};

struct VgpuSpec {
  std::string name;    // 1 to kVgpuNameBytesMax of A-Z a-z 0-9 . _ -
  double request = 0;  // share of the GPU's time that it gets whenever it wants it, 0 to 1
  double limit = 1;    // share that it never exceeds, `request` to 1, more than 0
  Priority priority = Priority::kNormal;
  Overrun overrun = Overrun::kBill;
  uint64_t memory_bytes = 0;  // for all its sessions together; 0: no limit. No policy looks at it
  uint32_t max_sessions = 0;  // at a time; 0: no limit. Lowering it ends no session
  uint32_t processes = 1;     // processes whose contexts have room beside memory_bytes, 1 to kVgpuProcessesMax
  uint32_t sm_percent = 0;    // of the GPU's SMs, 1 to 100; 0: not said. Kept for tiles; nothing looks at it yet

  friend bool operator==(const VgpuSpec&, const VgpuSpec&) = default;
};

inline constexpr size_t kVgpuNameBytesMax = 63;
inline constexpr uint32_t kVgpuProcessesMax = 1'024;
// Names of vGPUs that are parts of grants begin so.
inline constexpr std::string_view kGrantPrefix = "grant-";
inline bool IsOfGrant(const VgpuSpec& spec) { return spec.name.starts_with(kGrantPrefix); }

// "protected", "normal", "best-effort", as users write them.
std::string_view PriorityName(Priority priority);
// False when `word` is none of these.
bool ParsePriority(std::string_view word, Priority* priority);
// "bill", "end".
std::string_view OverrunName(Overrun overrun);
bool ParseOverrun(std::string_view word, Overrun* overrun);

}  // namespace tessera
