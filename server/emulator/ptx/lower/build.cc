// What one kernel can reach: functions to lower, shared variables to place. See Executable in program.h.
#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <set>

#include "server/emulator/ptx/lower/lower.h"

namespace tessera::emulator {
namespace {

struct Closure {
  std::set<uint32_t> called;            // in direct calls, or named as values
  std::set<uint32_t> shared_variables;  // module scope
  bool indirect = false;
};

template <class Visit>
void VisitSymbols(const Operand& operand, Visit&& visit) {
  if (operand.kind == Operand::kSymbol) visit(operand.name);
  for (const Operand& each : operand.elements) VisitSymbols(each, visit);
}

void Extend(const Program& program, uint32_t first, Closure* closure) {
  std::deque<uint32_t> queue{first};
  while (!queue.empty()) {
    const uint32_t id = queue.front();
    queue.pop_front();
    if (!closure->called.insert(id).second) continue;
    const LinkedFunction& function = program.functions()[id];
    auto visit = [&](std::string_view name) {
      const Symbol symbol = program.Find(function.unit, name);
      if (symbol.kind == Symbol::kFunction) queue.push_back(symbol.index);
      if (symbol.kind == Symbol::kVariable && program.variables()[symbol.index].decl->space == Space::kShared) {
        closure->shared_variables.insert(symbol.index);
      }
    };
    for (const Statement& statement : function.decl->statements) {
      for (const Operand& operand : statement.operands) VisitSymbols(operand, visit);
      for (const Operand& operand : statement.arguments) VisitSymbols(operand, visit);
      if (statement.opcode.starts_with("call") && !statement.operands.empty() && statement.operands[0].kind == Operand::kRegister)
        closure->indirect = true;
    }
  }
}

uint64_t AlignUp(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

// Functions whose address some code of the program takes: candidates of every indirect call.
std::set<uint32_t> AddressTaken(const Program& program) {
  std::set<uint32_t> taken(program.address_taken().begin(), program.address_taken().end());
  for (const LinkedFunction& function : program.functions()) {
    for (const Statement& statement : function.decl->statements) {
      if (statement.opcode.starts_with("call")) continue;
      for (const Operand& operand : statement.operands) {
        VisitSymbols(operand, [&](std::string_view name) {
          const Symbol symbol = program.Find(function.unit, name);
          if (symbol.kind == Symbol::kFunction) taken.insert(symbol.index);
        });
      }
    }
  }
  return taken;
}

// Static shared memory: module variables first, then those of functions; the dynamic part (extern, unsized) follows.
void PlaceShared(const Program& program, const Closure& closure, Executable* executable) {
  uint64_t offset = 0, dynamic_alignment = 16;
  std::vector<uint32_t> dynamic;
  for (uint32_t index : closure.shared_variables) {
    const VariableDecl& decl = *program.variables()[index].decl;
    if (decl.unsized_array || decl.linkage == Linkage::kExtern) {
      dynamic.push_back(index);
      dynamic_alignment = std::max(dynamic_alignment, decl.alignment_bytes);
      continue;
    }
    offset = AlignUp(offset, decl.alignment_bytes);
    executable->shared_offsets[index] = static_cast<uint32_t>(offset);
    offset += decl.size_bytes;
  }
  std::vector<const VariableDecl*> dynamic_local;
  for (uint32_t id : closure.called) {
    for (const VariableDecl& decl : program.functions()[id].decl->variables) {
      if (decl.space != Space::kShared) continue;
      if (decl.unsized_array) {
        dynamic_local.push_back(&decl);
        continue;
      }
      offset = AlignUp(offset, decl.alignment_bytes);
      executable->function_shared[&decl] = static_cast<uint32_t>(offset);
      offset += decl.size_bytes;
    }
  }
  executable->static_shared_bytes = static_cast<uint32_t>(std::min<uint64_t>(offset, UINT32_MAX));
  executable->dynamic_shared_offset = static_cast<uint32_t>(std::min<uint64_t>(AlignUp(offset, dynamic_alignment), UINT32_MAX));
  for (uint32_t index : dynamic) executable->shared_offsets[index] = executable->dynamic_shared_offset;
  for (const VariableDecl* decl : dynamic_local) executable->function_shared[decl] = executable->dynamic_shared_offset;
}

}  // namespace

uint32_t Program::StaticSharedBytes(uint32_t function) const {
  Closure closure;
  Extend(*this, function, &closure);
  if (closure.indirect) {
    for (uint32_t id : AddressTaken(*this)) Extend(*this, id, &closure);
  }
  Executable executable;
  PlaceShared(*this, closure, &executable);
  return executable.static_shared_bytes;
}

Result<std::unique_ptr<Executable>> Program::Build(uint32_t function) {
  auto executable = std::make_unique<Executable>();
  Closure closure;
  Extend(*this, function, &closure);
  const std::set<uint32_t> direct = closure.called;
  if (closure.indirect) {
    for (uint32_t id : AddressTaken(*this)) Extend(*this, id, &closure);
  }
  PlaceShared(*this, closure, executable.get());
  executable->codes.resize(functions_.size());
  for (uint32_t id : closure.called) {
    const FunctionDecl& decl = *functions_[id].decl;
    if (!decl.has_body) {
      if (FindBuiltin(decl.name) == nullptr)
        executable->missing[id] = fmt::format("function '{}' is not defined in any text", decl.name);
      continue;
    }
    auto code = std::make_unique<Code>();
    Lowering lowering(*this, executable.get(), id, code.get());
    Status status = lowering.Run();
    if (!status.ok()) {
      const std::string reason = fmt::format("function '{}': {}", decl.name, status.message());
      if (direct.count(id) != 0) return Status(StatusCode::kUnsupported, reason);
      executable->missing[id] = reason;
      continue;
    }
    executable->local_bytes = std::max(executable->local_bytes, code->local_bytes);
    executable->codes[id] = std::move(code);
  }
  executable->kernel = executable->codes[function].get();
  if (executable->kernel == nullptr) return Status(StatusCode::kInternal, "a kernel has no code");
  return executable;
}

Result<const Executable*> Program::Prepare(uint32_t function) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (auto found = executables_.find(function); found != executables_.end())
    return static_cast<const Executable*>(found->second.get());
  if (auto found = failures_.find(function); found != failures_.end()) return found->second;
  Result<std::unique_ptr<Executable>> built = Build(function);
  if (!built.ok()) {
    failures_[function] = built.status();
    return built.status();
  }
  auto [place, added] = executables_.emplace(function, std::move(built).value());
  return static_cast<const Executable*>(place->second.get());
}

}  // namespace tessera::emulator
