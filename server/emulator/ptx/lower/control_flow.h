// Basic blocks of a function, where diverged lanes meet (immediate post-dominators), and which registers are live where.
// Source: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm" (2001), on the reversed graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "server/emulator/ptx/parse/ast.h"

namespace tessera::emulator {

struct BasicBlock {
  uint32_t begin = 0, end = 0;       // statements
  std::vector<uint32_t> successors;  // kExitBlock stands for the end of the function
  uint32_t post_dominator = 0;       // block, or kExitBlock
  bool meeting_point = false;        // some branch's lanes meet at its beginning
};
inline constexpr uint32_t kExitBlock = 0xFFFFFFFFu;

struct ControlFlow {
  std::vector<BasicBlock> blocks;
  std::vector<uint32_t> block_of;  // by statement

  // Errors: kInvalidArgument for a label that does not exist.
  Status Build(const FunctionDecl& function);
  // The block that label `name`, seen from `scope`, begins; false if there is none.
  static bool FindLabel(const FunctionDecl& function, std::string_view name, uint32_t scope, uint32_t* statement);
  static const TargetList* FindTargets(const FunctionDecl& function, std::string_view name, uint32_t scope);

 private:
  void FindPostDominators();
};

// Assigns frame offsets to registers so that those never live at once may share one. `uses` and `definitions` list register
// indices per statement. Returns the bytes used, from `first_offset` on; slots of unused registers stay kNoSlot.
uint32_t AssignSlots(const FunctionDecl& function, const ControlFlow& flow, const std::vector<std::vector<uint32_t>>& uses,
                     const std::vector<std::vector<uint32_t>>& definitions, uint32_t first_offset, std::vector<uint32_t>* slots);

}  // namespace tessera::emulator
