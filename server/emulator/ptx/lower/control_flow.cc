#include "server/emulator/ptx/lower/control_flow.h"

#include <fmt/core.h>

#include <algorithm>

#include "server/emulator/ptx/run/code.h"

namespace tessera::emulator {
namespace {

std::string_view Base(const Statement& statement) { return statement.opcode.substr(0, statement.opcode.find('.')); }

// The place of a name as it is seen from `scope`: in the innermost scope that encloses it.
const uint32_t* FindPlace(const FunctionDecl& function, const FunctionDecl::Places& places, std::string_view name,
                          uint32_t scope) {
  const auto named = places.find(name);
  if (named == places.end()) return nullptr;
  for (;; scope = function.scope_parents[scope]) {
    if (const auto found = named->second.find(scope); found != named->second.end()) return &found->second;
    if (scope == 0) return nullptr;
  }
}

}  // namespace

bool ControlFlow::FindLabel(const FunctionDecl& function, std::string_view name, uint32_t scope, uint32_t* statement) {
  const uint32_t* const place = FindPlace(function, function.label_places, name, scope);
  if (place == nullptr) return false;
  *statement = function.labels[*place].statement;
  return true;
}

const TargetList* ControlFlow::FindTargets(const FunctionDecl& function, std::string_view name, uint32_t scope) {
  const uint32_t* const place = FindPlace(function, function.target_list_places, name, scope);
  return place == nullptr ? nullptr : &function.target_lists[*place];
}

Status ControlFlow::Build(const FunctionDecl& function) {
  const auto count = static_cast<uint32_t>(function.statements.size());
  std::vector<bool> leader(count + 1, false);
  leader[0] = true;
  for (const Label& label : function.labels) leader[label.statement] = true;
  std::vector<std::vector<uint32_t>> targets(count);
  for (uint32_t i = 0; i < count; ++i) {
    const Statement& statement = function.statements[i];
    const std::string_view base = Base(statement);
    auto add = [&](std::string_view name, uint32_t scope) {
      uint32_t target = 0;
      if (!FindLabel(function, name, scope, &target)) {
        return Status(StatusCode::kInvalidArgument, fmt::format("ptx line {}: label '{}' does not exist", statement.line, name));
      }
      targets[i].push_back(target);
      return Status::Ok();
    };
    if (base == "bra") {
      if (statement.operands.size() != 1)
        return Status(StatusCode::kInvalidArgument, fmt::format("ptx line {}: bra has no target", statement.line));
      RETURN_IF_ERROR(add(statement.operands[0].name, statement.scope));
      leader[i + 1] = true;
    } else if (base == "brx") {
      const TargetList* list = FindTargets(function, statement.table, statement.scope);
      if (list == nullptr)
        return Status(StatusCode::kInvalidArgument,
                      fmt::format("ptx line {}: target list '{}' does not exist", statement.line, statement.table));
      for (std::string_view name : list->targets) RETURN_IF_ERROR(add(name, list->scope));
      leader[i + 1] = true;
    } else if (base == "ret" || base == "exit") {
      leader[i + 1] = true;
    }
  }
  block_of.resize(count + 1);
  for (uint32_t i = 0; i < count; ++i) {
    if (leader[i]) blocks.push_back({i, i, {}, kExitBlock, false});
    block_of[i] = static_cast<uint32_t>(blocks.size() - 1);
    blocks.back().end = i + 1;
  }
  block_of[count] = kExitBlock;
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    BasicBlock& block = blocks[b];
    const uint32_t last = block.end - 1;
    const Statement& statement = function.statements[last];
    const std::string_view base = Base(statement);
    for (uint32_t target : targets[last]) block.successors.push_back(block_of[target]);
    const bool ends = base == "ret" || base == "exit";
    const bool jumps = base == "bra" || base == "brx";
    if (ends) block.successors.push_back(kExitBlock);
    if ((!ends && !jumps) || statement.guard >= 0) block.successors.push_back(b + 1 < blocks.size() ? b + 1 : kExitBlock);
    std::sort(block.successors.begin(), block.successors.end());
    block.successors.erase(std::unique(block.successors.begin(), block.successors.end()), block.successors.end());
  }
  FindPostDominators();
  for (const BasicBlock& block : blocks) {
    if (block.successors.size() > 1 && block.post_dominator != kExitBlock) blocks[block.post_dominator].meeting_point = true;
  }
  return Status::Ok();
}

void ControlFlow::FindPostDominators() {
  const auto n = static_cast<uint32_t>(blocks.size());
  const uint32_t exit = n;  // as a node of the reversed graph
  std::vector<std::vector<uint32_t>> predecessors(n + 1);
  for (uint32_t b = 0; b < n; ++b) {
    for (uint32_t s : blocks[b].successors) predecessors[s == kExitBlock ? exit : s].push_back(b);
  }
  // Post-order of the reversed graph from the exit; blocks of endless loops are not reached and meet nowhere.
  std::vector<uint32_t> order(n + 1, UINT32_MAX), sequence;
  std::vector<std::pair<uint32_t, size_t>> stack{{exit, 0}};
  std::vector<bool> seen(n + 1, false);
  seen[exit] = true;
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next < predecessors[node].size()) {
      const uint32_t p = predecessors[node][next++];
      if (!seen[p]) {
        seen[p] = true;
        stack.push_back({p, 0});
      }
    } else {
      order[node] = static_cast<uint32_t>(sequence.size());
      sequence.push_back(node);
      stack.pop_back();
    }
  }
  std::vector<uint32_t> dominator(n + 1, UINT32_MAX);
  dominator[exit] = exit;
  auto intersect = [&](uint32_t a, uint32_t b) {
    while (a != b) {
      while (order[a] < order[b]) a = dominator[a];
      while (order[b] < order[a]) b = dominator[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = sequence.size(); i-- > 0;) {
      const uint32_t b = sequence[i];
      if (b == exit) continue;
      uint32_t best = UINT32_MAX;
      for (uint32_t s : blocks[b].successors) {
        const uint32_t node = s == kExitBlock ? exit : s;
        if (dominator[node] == UINT32_MAX) continue;
        best = best == UINT32_MAX ? node : intersect(best, node);
      }
      if (best != UINT32_MAX && dominator[b] != best) {
        dominator[b] = best;
        changed = true;
      }
    }
  }
  for (uint32_t b = 0; b < n; ++b)
    blocks[b].post_dominator = dominator[b] == UINT32_MAX || dominator[b] == exit ? kExitBlock : dominator[b];
}

uint32_t AssignSlots(const FunctionDecl& function, const ControlFlow& flow, const std::vector<std::vector<uint32_t>>& uses,
                     const std::vector<std::vector<uint32_t>>& definitions, uint32_t first_offset, std::vector<uint32_t>* slots) {
  const size_t register_count = function.registers.size();
  const size_t words = (register_count + 63) / 64;
  const size_t blocks = flow.blocks.size();
  struct Range {
    uint32_t begin = UINT32_MAX, end = 0;  // statements, inclusive
  };
  std::vector<Range> ranges(register_count);
  auto touch = [&](uint32_t r, uint32_t at) {
    ranges[r].begin = std::min(ranges[r].begin, at);
    ranges[r].end = std::max(ranges[r].end, at);
  };
  // Liveness at block borders. A definition under a guard, or in a statement whose other lanes keep the old value, kills nothing.
  using Set = std::vector<uint64_t>;
  std::vector<Set> in(blocks, Set(words)), use(blocks, Set(words)), kill(blocks, Set(words));
  auto has = [](const Set& set, uint32_t r) { return (set[r / 64] >> (r % 64) & 1) != 0; };
  auto add = [](Set& set, uint32_t r) { set[r / 64] |= 1ull << (r % 64); };
  for (size_t b = 0; b < blocks; ++b) {
    for (uint32_t s = flow.blocks[b].begin; s < flow.blocks[b].end; ++s) {
      for (uint32_t r : uses[s]) {
        touch(r, s);
        if (!has(kill[b], r)) add(use[b], r);
      }
      for (uint32_t r : definitions[s]) {
        touch(r, s);
        if (function.statements[s].guard < 0)
          add(kill[b], r);
        else if (!has(kill[b], r))
          add(use[b], r);  // the lanes that are masked off keep what was there
      }
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = blocks; b-- > 0;) {
      for (size_t w = 0; w < words; ++w) {
        uint64_t out = 0;
        for (uint32_t s : flow.blocks[b].successors) {
          if (s != kExitBlock) out |= in[s][w];
        }
        const uint64_t now = use[b][w] | (out & ~kill[b][w]);
        if (now != in[b][w]) {
          in[b][w] = now;
          changed = true;
        }
      }
    }
  }
  for (size_t b = 0; b < blocks; ++b) {
    for (uint32_t r = 0; r < register_count; ++r) {
      if (has(in[b], r)) touch(r, flow.blocks[b].begin);
      for (uint32_t s : flow.blocks[b].successors) {
        if (s != kExitBlock && has(in[s], r)) {
          touch(r, flow.blocks[b].end - 1);
          break;
        }
      }
    }
  }
  // Linear scan over the ranges; one free list per slot size. A range that ends where another begins does not share with it,
  // since handlers may write a result before they have read every operand.
  std::vector<uint32_t> sorted;
  for (uint32_t r = 0; r < register_count; ++r) {
    if (ranges[r].begin != UINT32_MAX) sorted.push_back(r);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) { return ranges[a].begin < ranges[b].begin; });
  auto bytes = [&](uint32_t r) -> uint32_t {
    const Type type = function.registers[r].type;
    return type.IsPredicate() ? 64 : std::max<uint32_t>(type.size_bytes * kLaneCount, 64);
  };
  std::vector<uint32_t> free_slots[5];
  auto pool = [&](uint32_t size) -> std::vector<uint32_t>& {
    return free_slots[size == 64 ? 0 : size == 128 ? 1 : size == 256 ? 2 : 3];
  };
  slots->assign(register_count, kNoSlot);
  uint32_t end = first_offset;
  std::vector<uint32_t> active;
  for (uint32_t r : sorted) {
    for (size_t i = 0; i < active.size();) {
      if (ranges[active[i]].end < ranges[r].begin) {
        pool(bytes(active[i])).push_back((*slots)[active[i]]);
        active[i] = active.back();
        active.pop_back();
      } else {
        ++i;
      }
    }
    std::vector<uint32_t>& available = pool(bytes(r));
    if (available.empty()) {
      (*slots)[r] = end;
      end += bytes(r);
    } else {
      (*slots)[r] = available.back();
      available.pop_back();
    }
    active.push_back(r);
  }
  return end;
}

}  // namespace tessera::emulator
