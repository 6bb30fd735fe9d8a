// The machinery of lowering: statements, operands, slots. The contract is in lower.h.
#include "server/emulator/ptx/lower/lower.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "server/emulator/ptx/run/lanes.h"

namespace tessera::emulator {
namespace {

using Table = std::unordered_map<std::string_view, std::vector<const OpRow*>>;

const Table& OpTable() {
  static const Table table = [] {
    Table rows;
    for (std::span<const OpRow> family :
         {IntegerOps(), BitOps(), FloatOps(), HalfOps(), CompareOps(), ConvertOps(), MoveOps(), MemoryOps(), AtomicOps(),
          MbarrierOps(), WarpOps(), ControlOps(), MatrixOps(), TextureOps()}) {
      for (const OpRow& row : family) rows[row.base].push_back(&row);
    }
    return rows;
  }();
  return table;
}

bool Accepts(TypeFilter filter, Type type) {
  switch (filter) {
    case kAnyType: return true;
    case kIntegerTypes: return type.IsInteger();
    case kFloatTypes: return type.IsFloat() && type.size_bytes >= 4;
    case kHalfTypes:
      return (type.IsFloat() && type.size_bytes == 2) || type.type_class == TypeClass::kBrainFloat ||
             type.type_class == TypeClass::kPackedHalf || type.type_class == TypeClass::kPackedBrain;
    case kPackedIntegerTypes: return type.type_class == TypeClass::kPackedUnsigned || type.type_class == TypeClass::kPackedSigned;
    case kPredicateTypes: return type.IsPredicate();
  }
  return false;
}

// What a narrow result leaves in a wider register: zero or sign extended.
template <class Narrow, class Wide>
void WidenLanes(Warp& w, const Inst& inst, uint32_t mask) {
  Wide* d = w.Slot<Wide>(inst.dst);
  const Narrow* a = w.Slot<Narrow>(inst.src[0]);
  ForLanes(mask, [&](uint32_t l) { d[l] = static_cast<Wide>(a[l]); });
}

template <class Narrow>
Handler Widener(uint32_t bytes) {  // sign-extends when Narrow is signed
  return bytes == 2 ? &WidenLanes<Narrow, uint16_t> : bytes == 4 ? &WidenLanes<Narrow, uint32_t> : &WidenLanes<Narrow, uint64_t>;
}

}  // namespace

Lowering::Lowering(const Program& program, Executable* executable, uint32_t function, Code* code)
    : program_(program), executable_(executable), function_(program.functions()[function]), decl_(*function_.decl), code_(code) {}

Status Lowering::Run() {
  code_->declaration = &decl_;
  code_->name = std::string(decl_.name);
  code_->unit = function_.unit;
  RETURN_IF_ERROR(flow_.Build(decl_));
  LayOutLocals();
  uses_.resize(decl_.statements.size());
  definitions_.resize(decl_.statements.size());
  slots_.assign(decl_.registers.size(), 64);
  registers_end_ = 64;
  LowerAll();
  if (failed()) return status_;
  registers_end_ = AssignSlots(decl_, flow_, uses_, definitions_, 64, &slots_);  // the first 64 bytes hold the carry flags
  for (const std::vector<Formal>* list : {&decl_.formals, &decl_.results}) {
    for (const Formal& formal : *list) {
      if (!formal.is_register || slots_[formal.index] != kNoSlot) continue;
      slots_[formal.index] = registers_end_;
      registers_end_ += 512;
    }
  }
  // Register parameters hold values that no statement defines: they must not share.
  for (const Formal& formal : decl_.formals) {
    if (!formal.is_register) continue;
    slots_[formal.index] = registers_end_;
    registers_end_ += 512;
  }
  for (const Formal& formal : decl_.results) {
    if (!formal.is_register) continue;
    slots_[formal.index] = registers_end_;
    registers_end_ += 512;
  }
  collecting_ = false;
  code_->insts.clear();
  code_->extra.clear();
  code_->calls.clear();
  LowerAll();
  if (failed()) return status_;
  for (const Formal& formal : decl_.formals) code_->formals.push_back(TransferOfFormal(formal));
  for (const Formal& formal : decl_.results) code_->results.push_back(TransferOfFormal(formal));
  code_->frame_bytes = (registers_end_ + temporaries_peak_ + 63) / 64 * 64 + 64;
  code_->constants.reset(static_cast<uint8_t*>(std::aligned_alloc(64, (constants_.size() + 127) / 64 * 64)));
  std::copy(constants_.begin(), constants_.end(), code_->constants.get());
  return Status::Ok();
}

void Lowering::LowerAll() {
  std::vector<uint32_t> block_begin(flow_.blocks.size());
  for (uint32_t b = 0; b < flow_.blocks.size() && !failed(); ++b) {
    const BasicBlock& block = flow_.blocks[b];
    block_begin[b] = static_cast<uint32_t>(code_->insts.size());
    if (block.meeting_point) {
      Inst join;
      join.kind = InstKind::kJoin;
      join.line = decl_.statements[block.begin].line;
      code_->insts.push_back(join);
    }
    for (uint32_t s = block.begin; s < block.end && !failed(); ++s) {
      statement_index_ = s;
      LowerStatement(decl_.statements[s]);
    }
  }
  if (failed()) return;
  Inst end;
  end.kind = InstKind::kReturn;
  end.line = decl_.statements.empty() ? decl_.line : decl_.statements.back().line;
  const auto end_index = static_cast<uint32_t>(code_->insts.size());
  code_->insts.push_back(end);
  auto resolve = [&](uint32_t block) { return block == kExitBlock ? end_index : block_begin[block]; };
  for (Inst& inst : code_->insts) {
    if (inst.kind != InstKind::kBranch && inst.kind != InstKind::kBranchTable) continue;
    if (inst.kind == InstKind::kBranch) {
      inst.target = resolve(inst.target);
    } else {
      for (uint64_t i = 0; i < inst.imm; ++i) code_->extra[inst.extra + i] = resolve(code_->extra[inst.extra + i]);
    }
    inst.reconverge = inst.reconverge == kExitBlock ? kEndOfFunction : block_begin[inst.reconverge];
  }
}

void Lowering::LowerStatement(const Statement& statement) {
  statement_ = &statement;
  temporaries_ = 0;
  widenings_.clear();
  modifiers_.clear();
  const std::string_view opcode = statement.opcode;
  size_t at = opcode.find('.');
  base_ = opcode.substr(0, at);
  Type type;
  while (at != std::string_view::npos) {
    const size_t next = opcode.find('.', at + 1);
    modifiers_.push_back(opcode.substr(at + 1, next == std::string_view::npos ? next : next - at - 1));
    Type parsed;
    if (ParseType(modifiers_.back(), &parsed)) type = parsed;
    at = next;
  }
  const auto found = OpTable().find(base_);
  if (found == OpTable().end()) return Unknown();
  const OpRow* row = nullptr;
  for (const OpRow* candidate : found->second) {
    if (Accepts(candidate->filter, type)) {
      row = candidate;
      break;
    }
  }
  if (row == nullptr) return Unknown();
  row->lower(*this);
  if (!failed() && !modifiers_.empty()) return Unknown();
  for (const Widening& wide : widenings_) {
    Handler run =
        wide.type.size_bytes == 1   ? (wide.type.IsSigned() ? Widener<int8_t>(wide.to_bytes) : Widener<uint8_t>(wide.to_bytes))
        : wide.type.size_bytes == 2 ? (wide.type.IsSigned() ? Widener<int16_t>(wide.to_bytes) : Widener<uint16_t>(wide.to_bytes))
                                    : (wide.type.IsSigned() ? Widener<int32_t>(wide.to_bytes) : Widener<uint32_t>(wide.to_bytes));
    Inst& inst = Emit(run);
    inst.dst = wide.to;
    inst.src[0] = wide.from;
  }
  temporaries_peak_ = std::max(temporaries_peak_, temporaries_);
}

void Lowering::Fail(const std::string& what) {
  if (!failed())
    status_ = Status(StatusCode::kUnsupported,
                     fmt::format("ptx line {}: {}", statement_ != nullptr ? statement_->line : decl_.line, what));
}

void Lowering::Unknown() { Fail(fmt::format("instruction '{}' is not known to the emulator", statement_->opcode)); }

bool Lowering::Take(std::string_view modifier) {
  for (size_t i = 0; i < modifiers_.size(); ++i) {
    if (modifiers_[i] == modifier) {
      modifiers_.erase(modifiers_.begin() + static_cast<ptrdiff_t>(i));
      return true;
    }
  }
  return false;
}

bool Lowering::Peek(std::string_view modifier) const {
  return std::find(modifiers_.begin(), modifiers_.end(), modifier) != modifiers_.end();
}

bool Lowering::HasType() const {
  Type type;
  return std::any_of(modifiers_.begin(), modifiers_.end(), [&](std::string_view m) { return ParseType(m, &type); });
}

Type Lowering::TakeType() {
  Type type;
  for (size_t i = 0; i < modifiers_.size(); ++i) {
    if (ParseType(modifiers_[i], &type)) {
      modifiers_.erase(modifiers_.begin() + static_cast<ptrdiff_t>(i));
      return type;
    }
  }
  Unknown();
  return kB32;
}

std::string_view Lowering::TakeFirst() {
  if (modifiers_.empty()) return {};
  const std::string_view first = modifiers_.front();
  modifiers_.erase(modifiers_.begin());
  return first;
}

const Operand& Lowering::operand(size_t i) {
  static const Operand kNone;
  if (i < statement_->operands.size()) return statement_->operands[i];
  Fail(fmt::format("instruction '{}' lacks operands", statement_->opcode));
  return kNone;
}

Inst& Lowering::Emit(Handler run, InstKind kind) {
  Inst inst;
  inst.run = run;
  inst.kind = kind;
  inst.line = statement_->line;
  if (statement_->guard >= 0) {
    inst.guard = RegisterSlot(static_cast<uint32_t>(statement_->guard), false);
    inst.guard_negated = statement_->guard_negated;
    if (!decl_.registers[static_cast<size_t>(statement_->guard)].type.IsPredicate()) Fail("a guard is not a predicate");
  }
  code_->insts.push_back(inst);
  return code_->insts.back();
}

uint32_t Lowering::Temporary(uint32_t bytes_per_lane) {
  const uint32_t slot = registers_end_ + temporaries_;
  temporaries_ += std::max(64u, bytes_per_lane * kLaneCount);
  return slot;
}

uint32_t Lowering::Constant(uint32_t bytes, uint64_t bits) {
  const int kind = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
  if (bytes < 8) bits &= (1ull << bytes * 8) - 1;
  auto [found, added] = constant_index_[kind].try_emplace(bits, 0);
  if (added) {
    found->second = static_cast<uint32_t>(constants_.size());
    constants_.resize(constants_.size() + std::max(64u, bytes * kLaneCount));
    for (uint32_t lane = 0; lane < kLaneCount; ++lane)
      std::memcpy(constants_.data() + found->second + lane * bytes, &bits, bytes);
  }
  return kConstantSlot | found->second;
}

uint32_t Lowering::ConstantPredicate(bool value) { return Constant(4, value ? kAllLanes : 0); }

uint32_t Lowering::Extra(const std::vector<uint32_t>& words) {
  const auto index = static_cast<uint32_t>(code_->extra.size());
  code_->extra.insert(code_->extra.end(), words.begin(), words.end());
  return index;
}

}  // namespace tessera::emulator
