// The form in which functions run: decoded once, registers resolved to slots, one handler per instruction.
//
// Registers are kept per warp as arrays of 32 lanes (a slot); a predicate is one 32-bit word with a bit per lane. A slot
// reference is a byte offset into the frame, or, with the top bit set, into the function's pool of constants, which holds
// each literal 32 times so that a handler's loop over lanes need not tell the two apart.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "server/emulator/ptx/parse/ast.h"

namespace tessera::emulator {

inline constexpr uint32_t kLaneCount = 32;
inline constexpr uint32_t kAllLanes = 0xFFFFFFFFu;
inline constexpr uint32_t kConstantSlot = 0x80000000u;
inline constexpr uint32_t kNoSlot = 0xFFFFFFFFu;
inline constexpr uint32_t kEndOfFunction = 0xFFFFFFFFu;

// Generic addresses: below kSharedWindow they are host addresses, that is, global memory. The windows lie where no
// processor of today has user memory (bits 56 and up), so a pointer tells its space.
inline constexpr uint64_t kSharedWindow = 1ull << 56;
inline constexpr uint64_t kLocalWindow = 2ull << 56;
inline constexpr uint64_t kFunctionWindow = 4ull << 56;
inline constexpr uint64_t kWindowMask = ~((1ull << 56) - 1);
inline constexpr uint64_t kFunctionStride = 16;

struct Inst;
class Warp;
using Handler = void (*)(Warp& warp, const Inst& inst, uint32_t mask);

enum class InstKind : uint8_t {
  kPlain,         // run(), then the next
  kBranch,        // lanes of the guard to `target`
  kBranchTable,   // lanes to extra[src[0]]
  kJoin,          // a point where diverged lanes meet
  kCall,          // target: function id; extra: copies
  kCallIndirect,  // src[0]: address
  kCallBuiltin,   // run() does it all
  kReturn,
  kExit,
  kBarrier,   // run() is null; imm holds a BarrierKind
  kWarpSync,  // waits for the lanes named by src[3], then run() unless null
  kYield,     // lets other warps go first
};

enum class BarrierKind : uint8_t { kSync, kArrive, kPopc, kAnd, kOr };

struct alignas(64) Inst {
  Handler run = nullptr;
  uint64_t imm = 0;
  uint32_t dst = kNoSlot;
  uint32_t src[4] = {kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  uint32_t extra = 0;  // first of this instruction's words in Code::extra
  uint32_t guard = kNoSlot;
  uint32_t target = 0;                   // instruction, or function id
  uint32_t reconverge = kEndOfFunction;  // instruction where diverged lanes meet
  uint32_t line = 0;
  InstKind kind = InstKind::kPlain;
  bool guard_negated = false;
  uint8_t small = 0;  // a handler's own small constant
};
static_assert(sizeof(Inst) == 64);

// How a value passes between caller and callee: a variable in local memory or a register, on either side.
struct Transfer {
  bool is_register = false;
  uint32_t slot = 0;          // register: slot
  uint32_t local_offset = 0;  // variable: offset in the function's local memory
  uint32_t size_bytes = 0;
};

struct CallSite {
  std::vector<Transfer> arguments;
  std::vector<Transfer> results;
};

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};

struct Code {
  const FunctionDecl* declaration = nullptr;
  std::string name;
  std::vector<Inst> insts;
  std::vector<uint32_t> extra;
  std::vector<CallSite> calls;
  std::unique_ptr<uint8_t[], FreeDeleter> constants;
  uint32_t frame_bytes = 0;
  uint32_t local_bytes = 0;
  uint32_t unit = 0;
  std::vector<Transfer> formals;
  std::vector<Transfer> results;
};

}  // namespace tessera::emulator
