// Branches, calls, barriers, traps. Source: PTX ISA 9.0, "Control Flow Instructions", "barrier{.cta}", "Miscellaneous".
#include <fmt/core.h>

#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/run/lanes.h"

namespace tessera::emulator {

void Lowering::EmitBranch() {
  uint32_t statement = 0;
  ControlFlow::FindLabel(decl_, operand(0).name, statement_->scope, &statement);
  Inst& inst = Emit(nullptr, InstKind::kBranch);
  inst.target = flow_.block_of[statement];
  inst.reconverge = flow_.blocks[flow_.block_of[statement_index_]].post_dominator;
}

void Lowering::EmitBranchTable() {
  const TargetList* list = ControlFlow::FindTargets(decl_, statement_->table, statement_->scope);
  if (list == nullptr) return Unknown();
  std::vector<uint32_t> blocks;
  for (std::string_view name : list->targets) {
    uint32_t statement = 0;
    ControlFlow::FindLabel(decl_, name, list->scope, &statement);
    blocks.push_back(flow_.block_of[statement]);
  }
  const uint32_t index = Source(0, kU32);
  const uint32_t extra = Extra(blocks);
  Inst& inst = Emit(nullptr, InstKind::kBranchTable);
  inst.src[0] = index;
  inst.imm = blocks.size();
  inst.extra = extra;
  inst.reconverge = flow_.blocks[flow_.block_of[statement_index_]].post_dominator;
}

Transfer Lowering::TransferOfFormal(const Formal& formal) {
  Transfer transfer;
  transfer.is_register = formal.is_register;
  if (formal.is_register) {
    transfer.slot = slots_[formal.index];
    transfer.size_bytes = decl_.registers[formal.index].type.size_bytes;
  } else {
    transfer.local_offset = local_offsets_[formal.index];
    transfer.size_bytes = static_cast<uint32_t>(decl_.variables[formal.index].size_bytes);
  }
  return transfer;
}

// An argument or result of a call: a parameter variable, a register, or a literal.
Transfer Lowering::TransferOf(const Operand& operand, Type type, uint32_t size_bytes) {
  Transfer transfer;
  uint32_t local = 0;
  if (operand.kind == Operand::kVariable && LocalOffset(operand.index, &local)) {
    transfer.local_offset = local;
    transfer.size_bytes = static_cast<uint32_t>(decl_.variables[operand.index].size_bytes);
    return transfer;
  }
  transfer.is_register = true;
  transfer.size_bytes = size_bytes;
  transfer.slot = Source(operand, type);
  return transfer;
}

void Lowering::EmitCall() {
  const Operand& target = operand(0);
  CallSite site;
  const LinkedFunction* callee = nullptr;
  uint32_t callee_id = 0;
  if (target.kind == Operand::kSymbol) {
    const Symbol symbol = program_.Find(function_.unit, target.name);
    if (symbol.kind != Symbol::kFunction) return Fail(fmt::format("function '{}' is not declared", target.name));
    callee = &program_.functions()[symbol.index];
    callee_id = symbol.index;
  } else if (target.kind != Operand::kRegister) {
    return Unknown();
  }
  auto type_of = [&](const Operand& operand, size_t i, const std::vector<Formal>* formals) {
    if (operand.kind == Operand::kRegister) return RegisterType(operand);
    if (formals == nullptr || i >= formals->size()) return kB32;
    const Formal& formal = (*formals)[i];
    const uint64_t size = formal.is_register ? callee->decl->registers[formal.index].type.size_bytes
                                             : callee->decl->variables[formal.index].size_bytes;
    return size == 8 ? kB64 : size == 2 ? kB16 : size == 1 ? kB8 : kB32;
  };
  for (size_t i = 0; i < statement_->arguments.size(); ++i) {
    const Operand& argument = statement_->arguments[i];
    if (argument.kind == Operand::kSink) return Unknown();
    const Type type =
        argument.kind == Operand::kVariable ? kB64 : type_of(argument, i, callee != nullptr ? &callee->decl->formals : nullptr);
    if (type.IsPredicate()) return Fail("a predicate is passed to a function");
    site.arguments.push_back(TransferOf(argument, type, type.size_bytes));
  }
  for (size_t i = 0; i < statement_->results.size(); ++i) {
    const Operand& result = statement_->results[i];
    if (result.kind == Operand::kRegister) {
      Transfer transfer;
      transfer.is_register = true;
      transfer.size_bytes = RegisterType(result).size_bytes;
      transfer.slot = RegisterSlot(result.index, true);
      site.results.push_back(transfer);
    } else {
      site.results.push_back(TransferOf(result, kB64, 8));
    }
  }
  const uint32_t address = callee == nullptr ? Source(target, kB64) : kNoSlot;
  const auto index = static_cast<uint32_t>(code_->calls.size());
  code_->calls.push_back(std::move(site));
  if (callee != nullptr && !callee->decl->has_body) {
    if (const Handler builtin = FindBuiltin(callee->decl->name); builtin != nullptr) {
      Emit(builtin, InstKind::kCallBuiltin).extra = index;
      return;
    }
  }
  Inst& inst = Emit(nullptr, callee != nullptr ? InstKind::kCall : InstKind::kCallIndirect);
  inst.target = callee_id;
  inst.src[0] = address;
  inst.extra = index;
  if (callee == nullptr) {  // lanes that called different functions meet here
    Inst join;
    join.kind = InstKind::kJoin;
    join.line = statement_->line;
    code_->insts.push_back(join);
  }
}

namespace {

void LowerBra(Lowering& l) {
  l.Take("uni");
  l.EmitBranch();
}
void LowerBrx(Lowering& l) {
  l.Take("uni");
  if (!l.Take("idx")) return l.Unknown();
  l.EmitBranchTable();
}
void LowerCall(Lowering& l) {
  l.Take("uni");
  l.EmitCall();
}
void LowerRet(Lowering& l) {
  l.Take("uni");
  l.Emit(nullptr, InstKind::kReturn);
}
void LowerExit(Lowering& l) { l.Emit(nullptr, InstKind::kExit); }

void Trap(Warp& w, const Inst& inst, uint32_t) { w.Fault(LaunchError::kTrap, inst, "trap"); }
void LowerTrap(Lowering& l) { l.Emit(&Trap); }
void DoNothing(Warp&, const Inst&, uint32_t) {}
void LowerNothing(Lowering& l) {
  while (!l.TakeFirst().empty()) {
  }
  l.Emit(&DoNothing);
}
void LowerNanosleep(Lowering& l) {
  l.TakeType();
  l.Emit(nullptr, InstKind::kYield);
}

// A block is a cluster of its own: a cluster barrier is one of the block's, apart from the 16 of the program.
void LowerClusterBarrier(Lowering& l) {
  const bool arrive = l.Take("arrive"), wait = l.Take("wait");
  l.Take("aligned");
  l.Take("release");
  l.Take("acquire");
  l.Take("relaxed");
  if (arrive == wait) return l.Unknown();
  if (arrive) {
    l.Emit(&DoNothing);
    return;
  }
  const uint32_t id = l.Constant(4, 16);
  Inst& inst = l.Emit(nullptr, InstKind::kBarrier);
  inst.src[0] = id;
  inst.small = 1;
}

void LowerBarrier(Lowering& l) {
  if (l.Take("cluster")) return LowerClusterBarrier(l);
  l.Take("cta");
  l.Take("aligned");
  if (l.Take("warp")) {
    if (!l.Take("sync")) return l.Unknown();
    const uint32_t members = l.Source(0, kU32);
    l.Emit(nullptr, InstKind::kWarpSync).src[3] = members;
    return;
  }
  const bool sync = l.Take("sync"), arrive = l.Take("arrive"), reduce = l.Take("red");
  if (sync + arrive + reduce != 1) return l.Unknown();
  BarrierKind kind = sync ? BarrierKind::kSync : BarrierKind::kArrive;
  size_t at = 0;
  uint32_t d = kNoSlot, values = kNoSlot, threads = kNoSlot;
  if (reduce) {
    kind = l.Take("popc") ? BarrierKind::kPopc : l.Take("and") ? BarrierKind::kAnd : BarrierKind::kOr;
    if (kind == BarrierKind::kOr && !l.Take("or")) return l.Unknown();
    const Type t = l.TakeType();
    values = l.Predicate(l.count() - 1);
    at = 1;
    if (l.count() == 4) threads = l.Source(2, kU32);
    const uint32_t id = l.Source(at, kU32);
    d = l.Destination(0, t);
    Inst& inst = l.Emit(nullptr, InstKind::kBarrier);
    inst.imm = static_cast<uint64_t>(kind);
    inst.dst = d;
    inst.src[0] = id;
    inst.src[1] = threads;
    inst.src[2] = values;
    return;
  }
  const uint32_t id = l.Source(0, kU32);
  if (l.count() > 1) threads = l.Source(1, kU32);
  if (arrive && threads == kNoSlot) return l.Unknown();
  Inst& inst = l.Emit(nullptr, InstKind::kBarrier);
  inst.imm = static_cast<uint64_t>(kind);
  inst.src[0] = id;
  inst.src[1] = threads;
}

constexpr OpRow kRows[] = {
    {"bra", kAnyType, LowerBra},
    {"brx", kAnyType, LowerBrx},
    {"call", kAnyType, LowerCall},
    {"ret", kAnyType, LowerRet},
    {"exit", kAnyType, LowerExit},
    {"trap", kAnyType, LowerTrap},
    {"brkpt", kAnyType, LowerTrap},
    {"bar", kAnyType, LowerBarrier},
    {"barrier", kAnyType, LowerBarrier},
    {"nanosleep", kAnyType, LowerNanosleep},
    {"pmevent", kAnyType, LowerNothing},
    {"griddepcontrol", kAnyType, LowerNothing},
    {"setmaxnreg", kAnyType, LowerNothing},
};

}  // namespace

std::span<const OpRow> ControlOps() { return kRows; }

}  // namespace tessera::emulator
