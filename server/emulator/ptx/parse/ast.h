// What the parser makes of one PTX text: declarations and, per function, statements with their registers resolved.
//
// Strings are views into the text, which the Unit owns. Scopes ({ }) are already resolved for registers and variables;
// labels keep their scope because they may be used before they are declared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/emulator/ptx/parse/types.h"

namespace tessera::emulator {

enum class Space : uint8_t { kNone, kReg, kGlobal, kConst, kShared, kLocal, kParam, kGeneric };
enum class Linkage : uint8_t { kStatic, kVisible, kWeak, kExtern, kCommon };

// One element of a variable's initialiser.
struct Initializer {
  enum Kind : uint8_t { kInteger, kFloat, kSymbol } kind = kInteger;
  uint64_t bits = 0;        // the integer, or the bits of the f64
  uint8_t float_bytes = 0;  // 4 when `bits` are those of an f32 literal
  std::string_view symbol;
  int64_t offset = 0;
  bool generic = false;
  uint64_t mask = 0;  // 0: the whole address; else which byte of it, as in 0xFF00(symbol)
};

struct VariableDecl {
  std::string_view name;
  Space space = Space::kNone;
  Linkage linkage = Linkage::kStatic;
  Type type;
  uint32_t vector_count = 1;
  uint64_t size_bytes = 0;
  uint64_t alignment_bytes = 1;
  bool unsized_array = false;  // extern .shared x[]
  bool managed = false;
  bool opaque = false;  // .texref, .samplerref, .surfref
  std::vector<Initializer> initializer;
  uint32_t line = 0;
};

struct Operand {
  enum Kind : uint8_t {
    kNone,
    kRegister,
    kSpecial,
    kInteger,
    kFloat,
    kDouble,
    kSymbol,
    kVariable,
    kAddress,
    kVector,
    kPair,
    kSink
  };
  Kind kind = kNone;
  bool negated = false;           // !p or -x
  uint32_t index = 0;             // kRegister: into FunctionDecl::registers; kVariable: into FunctionDecl::variables
  uint64_t bits = 0;              // literals
  int64_t offset = 0;             // kAddress
  std::string_view name;          // kSpecial, kSymbol
  std::vector<Operand> elements;  // kVector, kPair; kAddress: its base, absent for an absolute address
};

struct Statement {
  std::string_view opcode;         // "add.s32"
  std::vector<Operand> operands;   // call: target first
  std::vector<Operand> results;    // call
  std::vector<Operand> arguments;  // call
  std::string_view table;          // call: prototype or target list; brx.idx: target list
  uint32_t line = 0;
  uint32_t scope = 0;
  int32_t guard = -1;  // register index
  bool guard_negated = false;
};

struct Label {
  std::string_view name;
  uint32_t scope = 0;
  uint32_t statement = 0;  // the statement that follows
};

struct TargetList {  // .branchtargets, .calltargets
  std::string_view name;
  uint32_t scope = 0;
  std::vector<std::string_view> targets;
};

struct RegisterDecl {
  Type type;
};

// A formal parameter or return value: a variable, or a register (old style).
struct Formal {
  bool is_register = false;
  uint32_t index = 0;
};

struct FunctionDecl {
  std::string_view name;
  Linkage linkage = Linkage::kStatic;
  bool is_entry = false;
  bool has_body = false;
  std::vector<Formal> results;
  std::vector<Formal> formals;
  std::vector<RegisterDecl> registers;
  std::vector<VariableDecl> variables;  // params, locals, shared declared inside
  std::vector<Statement> statements;
  std::vector<Label> labels;
  std::vector<TargetList> target_lists;
  // Their places in these, by name and scope: a text may have a hundred thousand, and as many uses.
  using Places = std::unordered_map<std::string_view, std::unordered_map<uint32_t, uint32_t>>;
  Places label_places, target_list_places;
  std::vector<uint32_t> scope_parents;    // [0] is the body
  uint32_t declared_32bit_registers = 0;  // for the estimate of KernelInfo
  uint32_t max_threads[3] = {0, 0, 0};
  uint32_t required_threads[3] = {0, 0, 0};
  uint32_t required_cluster[3] = {0, 0, 0};
  bool explicit_cluster = false;
  uint32_t max_registers = 0;
  int32_t duration_formal = -1;  // the parameter that .pragma "tessera_us ..." names
  uint32_t line = 0;
};

struct Alias {
  std::string_view name;
  std::string_view target;
};

struct Unit {
  std::string text;
  uint32_t version = 0;  // 90
  uint32_t target_sm = 0;
  std::vector<VariableDecl> variables;
  std::vector<std::unique_ptr<FunctionDecl>> functions;
  std::vector<Alias> aliases;
};

}  // namespace tessera::emulator
