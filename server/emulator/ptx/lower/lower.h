// Lowering: turns a function's statements into Code. An instruction's lower function (a row of a family's table) reads the
// modifiers and operands of the current statement through Lowering and emits one or more Inst.
//
// Every modifier must be taken by the lower function; what is left over makes the instruction "not known". So a variant that
// nobody thought of is an error and never a wrong result.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/emulator/ptx/lower/control_flow.h"
#include "server/emulator/ptx/run/program.h"

namespace tessera::emulator {

class Lowering;

// Which element types a row of a table applies to; the last type among the modifiers decides.
enum TypeFilter : uint8_t { kAnyType, kIntegerTypes, kFloatTypes, kHalfTypes, kPackedIntegerTypes, kPredicateTypes };

struct OpRow {
  std::string_view base;  // what precedes the first dot
  TypeFilter filter;
  void (*lower)(Lowering& l);
};

// Where an address operand points, as a load or store handler needs it.
struct Address {
  uint32_t slot = kNoSlot;
  bool is_32bit = false;
  int64_t offset = 0;
  bool kernel_parameter = false;  // offset is into the parameter buffer
};

class Lowering {
 public:
  Lowering(const Program& program, Executable* executable, uint32_t function, Code* code);
  // Lowers the whole function. kUnsupported, "ptx line N: ...".
  Status Run();

  // --- for lower functions: modifiers ---
  bool Take(std::string_view modifier);
  Type TakeType();  // the first type left; fails when there is none
  bool HasType() const;
  std::string_view TakeFirst();  // the first modifier left, or empty
  bool Peek(std::string_view modifier) const;

  // --- operands ---
  size_t count() const { return statement_->operands.size(); }
  const Operand& operand(size_t i);
  uint32_t Source(size_t i, Type type) { return Source(operand(i), type); }
  uint32_t Source(const Operand& operand, Type type);
  uint32_t Predicate(const Operand& operand);
  uint32_t Predicate(size_t i) { return Predicate(operand(i)); }
  uint32_t Destination(size_t i, Type type) { return Destination(operand(i), type); }
  uint32_t Destination(const Operand& operand, Type type);  // a sink gives a temporary
  Type RegisterType(const Operand& operand) const;          // none unless a register
  Address AddressOf(size_t i, Space space);
  bool IsLocalVariable(size_t i);    // the operand's address begins with a variable on the stack
  uint64_t parameter_bytes() const;  // of the kernel
  const Statement& statement() const { return *statement_; }

  // --- emitting ---
  Inst& Emit(Handler run, InstKind kind = InstKind::kPlain);
  uint32_t Temporary(uint32_t bytes_per_lane);
  uint32_t Constant(uint32_t bytes_per_lane, uint64_t bits);
  uint32_t ConstantPredicate(bool value);
  uint32_t Extra(const std::vector<uint32_t>& words);
  void Fail(const std::string& what);
  void Unknown();  // "instruction 'x' is not known to the emulator"
  bool failed() const { return !status_.ok(); }

  // --- control flow and calls ---
  void EmitBranch();
  void EmitBranchTable();
  void EmitCall();
  bool in_kernel() const { return decl_.is_entry; }
  const Program& program() const { return program_; }

 private:
  void LowerStatement(const Statement& statement);
  void LowerAll();
  void AllocateRegisters();
  uint32_t RegisterSlot(uint32_t index, bool write);
  uint32_t SymbolValue(const Operand& operand, Type type);
  Transfer TransferOf(const Operand& operand, Type type, uint32_t size_bytes);
  Transfer TransferOfFormal(const Formal& formal);
  bool LocalOffset(uint32_t variable, uint32_t* offset);
  void LayOutLocals();
  void BuildIndirectFormals(std::vector<uint32_t>* sizes);

  const Program& program_;
  Executable* executable_;
  const LinkedFunction& function_;
  const FunctionDecl& decl_;
  Code* code_;
  ControlFlow flow_;
  Status status_;

  const Statement* statement_ = nullptr;
  uint32_t statement_index_ = 0;
  std::string_view base_;
  std::vector<std::string_view> modifiers_;
  struct Widening {
    uint32_t from, to;
    Type type;
    uint32_t to_bytes;
  };
  std::vector<Widening> widenings_;

  bool collecting_ = true;  // first pass: uses and definitions only
  std::vector<std::vector<uint32_t>> uses_, definitions_;
  std::vector<uint32_t> slots_;  // by register
  uint32_t registers_end_ = 0;   // frame bytes of registers; temporaries follow
  uint32_t temporaries_ = 0, temporaries_peak_ = 0;
  std::vector<uint8_t> constants_;
  std::unordered_map<uint64_t, uint32_t> constant_index_[5];
  std::vector<uint32_t> local_offsets_;  // by variable
};

// The tables, one per family.
std::span<const OpRow> IntegerOps();
std::span<const OpRow> BitOps();
std::span<const OpRow> FloatOps();
std::span<const OpRow> HalfOps();
std::span<const OpRow> CompareOps();
std::span<const OpRow> ConvertOps();
std::span<const OpRow> MoveOps();
std::span<const OpRow> MemoryOps();
std::span<const OpRow> AtomicOps();
std::span<const OpRow> MbarrierOps();
std::span<const OpRow> WarpOps();
std::span<const OpRow> ControlOps();
std::span<const OpRow> MatrixOps();
std::span<const OpRow> TextureOps();

// The forms of cp.async that arrive at mbarriers (ops_mbarrier.cc); false when the statement is another.
bool LowerAsyncCopyOnBarrier(Lowering& l);

// Reads special register `name` ("%tid.x") into `dst`; false when there is no such register (ops_special.cc).
struct SpecialRegister {
  Handler read = nullptr;
  Type type;
  uint8_t small = 0;
};
bool FindSpecialRegister(std::string_view name, SpecialRegister* special);

// Handlers of functions that the device runtime provides: vprintf, malloc, free, __assertfail (builtins.cc); null if not one.
Handler FindBuiltin(std::string_view name);

}  // namespace tessera::emulator
