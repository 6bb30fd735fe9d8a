// A linked program: symbols resolved over units, variables placed; and, per kernel, the code that a launch needs.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/emulator/ptx/parse/ast.h"
#include "server/emulator/ptx/run/code.h"
#include "server/emulator/ptx/run/global_allocator.h"

namespace tessera::emulator {

class Kernel;  // module.h

// A variable after linking.
struct PlacedVariable {
  const VariableDecl* decl = nullptr;
  uint32_t unit = 0;
  uint64_t address = 0;  // global and const
  bool kept = false;     // managed, and has its value already
};

struct LinkedFunction {
  const FunctionDecl* decl = nullptr;
  uint32_t unit = 0;
};

struct Symbol {
  enum Kind : uint8_t { kNone, kFunction, kVariable } kind = kNone;
  uint32_t index = 0;
};

// Everything one kernel can execute. Immutable once built.
struct Executable {
  const Code* kernel = nullptr;
  std::vector<std::unique_ptr<Code>> codes;               // by function id; null for what is not reachable or not lowerable
  std::unordered_map<uint32_t, std::string> missing;      // why a function id has no code
  std::unordered_map<uint32_t, uint32_t> shared_offsets;  // module variable index -> offset in shared memory
  std::unordered_map<const VariableDecl*, uint32_t> function_shared;  // declared inside functions
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_offset = 0;
  uint32_t local_bytes = 0;
  std::string MissingReason(uint32_t function) const;
};

class Program {
 public:
  ~Program();
  static Result<std::unique_ptr<Program>> Link(std::vector<std::unique_ptr<Unit>> units, GlobalAllocator& allocator);

  // A name as unit `unit` sees it: its own static symbols first, then what is linked.
  Symbol Find(uint32_t unit, std::string_view name) const;
  const std::vector<LinkedFunction>& functions() const { return functions_; }
  const std::vector<PlacedVariable>& variables() const { return variables_; }
  const Unit& unit(uint32_t index) const { return *units_[index]; }
  uint64_t FunctionStatic(const VariableDecl* decl) const;  // address of a .global/.const declared inside a function
  // Builds (once) what the kernel `function` runs; kUnsupported names the first instruction that is in the way.
  Result<const Executable*> Prepare(uint32_t function);
  // Static shared memory of a kernel with everything it can call.
  uint32_t StaticSharedBytes(uint32_t function) const;
  // Functions whose address is taken by an initialiser.
  const std::vector<uint32_t>& address_taken() const { return address_taken_; }
  bool uses_printf() const { return uses_printf_; }

 private:
  Status DeclareUnit(uint32_t unit);
  // Whether constants have the room that a device has for them.
  Status CheckConstants() const;
  Status PlaceVariables();
  Status Place(const VariableDecl& decl, uint64_t* address, bool* kept);
  Status Initialize(const VariableDecl& decl, uint32_t unit, uint64_t address);
  Result<uint64_t> SymbolAddress(uint32_t unit, std::string_view name, uint32_t line);
  Result<std::unique_ptr<Executable>> Build(uint32_t function);

  GlobalAllocator* allocator_ = nullptr;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::unordered_map<std::string_view, Symbol>> unit_symbols_;
  std::unordered_map<std::string_view, Symbol> global_symbols_;
  std::vector<LinkedFunction> functions_;
  std::vector<PlacedVariable> variables_;
  std::unordered_map<const VariableDecl*, uint64_t> function_statics_;
  std::vector<uint64_t> allocated_;
  std::vector<uint32_t> address_taken_;
  bool uses_printf_ = false;
  std::mutex mutex_;  // guards executables_
  std::unordered_map<uint32_t, std::unique_ptr<Executable>> executables_;
  std::unordered_map<uint32_t, Status> failures_;
};

Result<const Executable*> PrepareExecutable(const Kernel& kernel);

}  // namespace tessera::emulator
