// What an operand of an instruction is made of: registers, constants, symbols, addresses, and where locals lie. The
// contract is in lower.h.
#include <fmt/core.h>

#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/run/lanes.h"

namespace tessera::emulator {
namespace {

// The low part of a wider register.
template <class Narrow, class Wide>
void NarrowLanes(Warp& w, const Inst& inst, uint32_t mask) {
  Narrow* d = w.Slot<Narrow>(inst.dst);
  const Wide* a = w.Slot<Wide>(inst.src[0]);
  ForLanes(mask, [&](uint32_t l) { d[l] = static_cast<Narrow>(a[l]); });
}

template <class Narrow>
Handler Narrower(uint32_t bytes) {
  return bytes == 2   ? &NarrowLanes<Narrow, uint16_t>
         : bytes == 4 ? &NarrowLanes<Narrow, uint32_t>
                      : &NarrowLanes<Narrow, uint64_t>;
}

Handler NarrowerTo(uint32_t bytes, uint32_t register_bytes) {
  return bytes == 1   ? Narrower<uint8_t>(register_bytes)
         : bytes == 2 ? Narrower<uint16_t>(register_bytes)
                      : Narrower<uint32_t>(register_bytes);
}

void NotPredicate(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t& d = *w.Slot<uint32_t>(inst.dst);
  d = (d & ~mask) | (~*w.Slot<uint32_t>(inst.src[0]) & mask);
}

void LocalAddress(Warp& w, const Inst& inst, uint32_t mask) {
  uint64_t* d = w.Slot<uint64_t>(inst.dst);
  const uint64_t value = w.local_base() + inst.imm;
  ForLanes(mask, [&](uint32_t l) { d[l] = value; });
}

void LocalAddress32(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  const auto value = static_cast<uint32_t>(w.local_base() + inst.imm);
  ForLanes(mask, [&](uint32_t l) { d[l] = value; });
}

void ParameterAddress(Warp& w, const Inst& inst, uint32_t mask) {
  uint64_t* d = w.Slot<uint64_t>(inst.dst);
  const uint64_t value = reinterpret_cast<uint64_t>(w.grid().parameters.data()) + inst.imm;
  ForLanes(mask, [&](uint32_t l) { d[l] = value; });
}

}  // namespace

uint32_t Lowering::RegisterSlot(uint32_t index, bool write) {
  if (collecting_) (write ? definitions_ : uses_)[statement_index_].push_back(index);
  return slots_[index];
}

Type Lowering::RegisterType(const Operand& operand) const {
  return operand.kind == Operand::kRegister ? decl_.registers[operand.index].type : Type{};
}

uint32_t Lowering::Source(const Operand& operand, Type type) {
  const uint32_t bytes = type.size_bytes;
  switch (operand.kind) {
    case Operand::kRegister: {
      const Type declared = decl_.registers[operand.index].type;
      if (type.IsPredicate() || declared.IsPredicate()) {
        if (type.IsPredicate() && declared.IsPredicate()) return Predicate(operand);
        break;
      }
      const uint32_t slot = RegisterSlot(operand.index, false);
      if (declared.size_bytes == bytes) return slot;
      if (declared.size_bytes < bytes || declared.size_bytes > 8) {
        Fail(fmt::format("register '{}' is {} bytes wide, '{}' needs {}", operand.name, declared.size_bytes, statement_->opcode,
                         bytes));
        return slot;
      }
      const uint32_t narrow = Temporary(bytes);
      Inst& inst = Emit(NarrowerTo(bytes, declared.size_bytes));
      inst.dst = narrow;
      inst.src[0] = slot;
      return narrow;
    }
    case Operand::kInteger:
      if (type.IsPredicate()) return ConstantPredicate(operand.bits != 0);
      if (type.IsFloat() && bytes == 4 && operand.bits < 1u << 24)
        return Constant(4, std::bit_cast<uint32_t>(static_cast<float>(operand.bits)));
      if (type.IsFloat() && bytes == 8 && operand.bits < 1u << 24)
        return Constant(8, std::bit_cast<uint64_t>(static_cast<double>(operand.bits)));
      return Constant(bytes, operand.bits);
    case Operand::kFloat:
      if (type.IsFloat() && bytes == 8)
        return Constant(8,
                        std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(operand.bits)))));
      return Constant(bytes, operand.bits);
    case Operand::kDouble:
      if (bytes == 4) return Constant(4, std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits))));
      if (bytes == 8) return Constant(8, operand.bits);
      break;
    case Operand::kSpecial: {
      SpecialRegister special;
      if (!FindSpecialRegister(operand.name, &special)) {
        Fail(fmt::format("special register '{}' is not known to the emulator", operand.name));
        return 0;
      }
      if (special.type.size_bytes < bytes) break;
      const uint32_t slot = Temporary(special.type.size_bytes);
      Inst& inst = Emit(special.read);
      inst.dst = slot;
      inst.small = special.small;
      if (special.type.size_bytes == bytes) return slot;
      const uint32_t narrow = Temporary(bytes);
      Inst& cut = Emit(NarrowerTo(bytes, special.type.size_bytes));
      cut.dst = narrow;
      cut.src[0] = slot;
      return narrow;
    }
    case Operand::kSymbol:
    case Operand::kVariable:
      if (bytes >= 4 && !type.IsPredicate()) return SymbolValue(operand, type);
      break;
    default: break;
  }
  Fail(fmt::format("an operand of '{}' has the wrong kind", statement_->opcode));
  return 0;
}

uint32_t Lowering::Predicate(const Operand& operand) {
  if (operand.kind == Operand::kInteger) return ConstantPredicate((operand.bits != 0) != operand.negated);
  if (operand.kind == Operand::kRegister && decl_.registers[operand.index].type.IsPredicate()) {
    const uint32_t slot = RegisterSlot(operand.index, false);
    if (!operand.negated) return slot;
    const uint32_t inverse = Temporary(4);
    Inst& inst = Emit(&NotPredicate);
    inst.dst = inverse;
    inst.src[0] = slot;
    return inverse;
  }
  Fail(fmt::format("an operand of '{}' is not a predicate", statement_->opcode));
  return 0;
}

uint32_t Lowering::Destination(const Operand& operand, Type type) {
  if (operand.kind == Operand::kSink) return Temporary(type.size_bytes);
  if (operand.kind != Operand::kRegister) {
    Fail(fmt::format("the result of '{}' is not a register", statement_->opcode));
    return 0;
  }
  const Type declared = decl_.registers[operand.index].type;
  const uint32_t slot = RegisterSlot(operand.index, true);
  if (type.IsPredicate() != declared.IsPredicate()) {
    Fail(fmt::format("the result of '{}' has the wrong kind of register", statement_->opcode));
    return slot;
  }
  if (type.IsPredicate() || declared.size_bytes == type.size_bytes) return slot;
  if (declared.size_bytes < type.size_bytes || declared.size_bytes > 8) {
    Fail(fmt::format("register '{}' is {} bytes wide, '{}' writes {}", operand.name, declared.size_bytes, statement_->opcode,
                     type.size_bytes));
    return slot;
  }
  const uint32_t narrow = Temporary(type.size_bytes);
  widenings_.push_back({narrow, slot, type, declared.size_bytes});
  return narrow;
}

bool Lowering::LocalOffset(uint32_t variable, uint32_t* offset) {
  if (local_offsets_[variable] == kNoSlot) return false;
  *offset = local_offsets_[variable];
  return true;
}

// The value of a symbol as a number: an address in its own space.
uint32_t Lowering::SymbolValue(const Operand& operand, Type type) {
  const uint32_t bytes = type.size_bytes;
  if (operand.kind == Operand::kVariable) {
    const VariableDecl& variable = decl_.variables[operand.index];
    uint32_t local = 0;
    if (LocalOffset(operand.index, &local)) {
      const uint32_t slot = Temporary(bytes);
      Inst& inst = Emit(bytes == 8 ? &LocalAddress : &LocalAddress32);
      inst.dst = slot;
      inst.imm = local + static_cast<uint64_t>(operand.offset);
      return slot;
    }
    if (variable.space == Space::kParam) {
      const uint32_t slot = Temporary(8);
      Inst& inst = Emit(&ParameterAddress);
      uint64_t offset = 0;
      for (uint32_t i = 0; i <= operand.index; ++i) {  // parameters are the first variables of a kernel
        const VariableDecl& each = decl_.variables[i];
        offset = (offset + each.alignment_bytes - 1) / each.alignment_bytes * each.alignment_bytes;
        if (i < operand.index) offset += each.size_bytes;
      }
      inst.dst = slot;
      inst.imm = offset + static_cast<uint64_t>(operand.offset);
      if (bytes != 8) Fail("a parameter's address is taken in 32 bits");
      return slot;
    }
    if (variable.space == Space::kShared) {
      return Constant(bytes, executable_->function_shared[&variable] + static_cast<uint64_t>(operand.offset));
    }
    return Constant(bytes, program_.FunctionStatic(&variable) + static_cast<uint64_t>(operand.offset));
  }
  if (operand.name == "WARP_SZ") return Constant(bytes, kLaneCount);
  const Symbol symbol = program_.Find(function_.unit, operand.name);
  if (symbol.kind == Symbol::kFunction) {
    if (bytes != 8) Fail("a function's address is taken in 32 bits");
    return Constant(8, kFunctionWindow + symbol.index * kFunctionStride);
  }
  if (symbol.kind == Symbol::kVariable) {
    const PlacedVariable& variable = program_.variables()[symbol.index];
    if (variable.decl->opaque)
      Fail(fmt::format("texture and surface references are not known to the emulator ('{}')", operand.name));
    if (variable.decl->space == Space::kShared) {
      const auto found = executable_->shared_offsets.find(symbol.index);
      if (found == executable_->shared_offsets.end()) {
        Fail(fmt::format("shared variable '{}' has no place", operand.name));
        return 0;
      }
      return Constant(bytes, found->second + static_cast<uint64_t>(operand.offset));
    }
    if (bytes != 8) Fail("a global variable's address is taken in 32 bits");
    return Constant(8, variable.address + static_cast<uint64_t>(operand.offset));
  }
  Fail(fmt::format("'{}' is not declared", operand.name));
  return 0;
}

bool Lowering::IsLocalVariable(size_t i) {
  const Operand& op = operand(i);
  if (op.elements.size() != 1 || op.elements[0].kind != Operand::kVariable) return false;
  return local_offsets_[op.elements[0].index] != kNoSlot;
}

uint64_t Lowering::parameter_bytes() const {
  uint64_t offset = 0;
  for (const Formal& formal : decl_.formals) {
    const VariableDecl& each = decl_.variables[formal.index];
    offset = (offset + each.alignment_bytes - 1) / each.alignment_bytes * each.alignment_bytes + each.size_bytes;
  }
  return offset;
}

Address Lowering::AddressOf(size_t i, Space /*space*/) {
  const Operand& op = operand(i);
  Address address;
  if (op.kind != Operand::kAddress || op.elements.size() > 1) {
    Fail(fmt::format("an operand of '{}' is not an address", statement_->opcode));
    return address;
  }
  address.offset = op.offset;
  if (op.elements.empty()) {
    address.slot = Constant(8, 0);
    return address;
  }
  const Operand& base = op.elements[0];
  if (base.kind == Operand::kVariable && decl_.variables[base.index].space == Space::kParam && in_kernel() &&
      local_offsets_[base.index] == kNoSlot) {
    address.kernel_parameter = true;
    uint64_t offset = 0;
    for (uint32_t v = 0; v <= base.index; ++v) {
      const VariableDecl& each = decl_.variables[v];
      offset = (offset + each.alignment_bytes - 1) / each.alignment_bytes * each.alignment_bytes;
      if (v < base.index) offset += each.size_bytes;
    }
    address.offset += static_cast<int64_t>(offset);
    return address;
  }
  if (base.kind == Operand::kRegister) {
    const Type declared = RegisterType(base);
    address.is_32bit = declared.size_bytes == 4;
    address.slot = Source(base, address.is_32bit ? kB32 : kB64);
    return address;
  }
  address.slot = Source(base, kB64);
  return address;
}

void Lowering::LayOutLocals() {
  local_offsets_.assign(decl_.variables.size(), kNoSlot);
  std::vector<bool> kernel_parameter(decl_.variables.size(), false);
  if (decl_.is_entry) {
    for (const Formal& formal : decl_.formals) {
      if (!formal.is_register) kernel_parameter[formal.index] = true;
    }
  }
  uint64_t offset = 0;
  for (size_t i = 0; i < decl_.variables.size(); ++i) {
    const VariableDecl& variable = decl_.variables[i];
    const bool local = variable.space == Space::kLocal || (variable.space == Space::kParam && !kernel_parameter[i]);
    if (!local) continue;
    const uint64_t alignment = std::max<uint64_t>(variable.alignment_bytes, variable.space == Space::kParam ? 8 : 1);
    offset = (offset + alignment - 1) / alignment * alignment;
    local_offsets_[i] = static_cast<uint32_t>(std::min<uint64_t>(offset, UINT32_MAX - 1));
    offset += variable.size_bytes;
    if (offset > (512u << 10)) {
      Fail(fmt::format("function '{}' has more local memory than a thread may have", decl_.name));
      offset = 0;
    }
  }
  code_->local_bytes = static_cast<uint32_t>((offset + 15) / 16 * 16);
}

}  // namespace tessera::emulator
