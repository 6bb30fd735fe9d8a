// Linking and placing variables. Source: PTX ISA 9.0, "Linking Directives", "Initializers".
#include "server/emulator/ptx/run/program.h"

#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace tessera::emulator {
namespace {

Status Error(uint32_t line, const std::string& what) {
  return Status(StatusCode::kInvalidArgument, fmt::format("ptx line {}: {}", line, what));
}

bool IsShared(Linkage linkage) { return linkage != Linkage::kStatic; }

}  // namespace

std::string Executable::MissingReason(uint32_t function) const {
  auto found = missing.find(function);
  return found != missing.end() ? found->second : fmt::format("function {} has no code", function);
}

Program::~Program() {
  for (uint64_t address : allocated_) allocator_->Free(address);
}

Symbol Program::Find(uint32_t unit, std::string_view name) const {
  const auto& own = unit_symbols_[unit];
  if (auto found = own.find(name); found != own.end()) return found->second;
  if (auto found = global_symbols_.find(name); found != global_symbols_.end()) return found->second;
  return {};
}

uint64_t Program::FunctionStatic(const VariableDecl* decl) const {
  auto found = function_statics_.find(decl);
  return found == function_statics_.end() ? 0 : found->second;
}

// Enters the symbols of one unit. A definition replaces a declaration; a strong one replaces a weak one.
Status Program::DeclareUnit(uint32_t index) {
  const Unit& unit = *units_[index];
  for (const auto& function : unit.functions) {
    auto& table = IsShared(function->linkage) ? global_symbols_ : unit_symbols_[index];
    Symbol& symbol = table[function->name];
    if (symbol.kind == Symbol::kVariable) return Error(function->line, fmt::format("'{}' is a variable already", function->name));
    if (symbol.kind == Symbol::kNone) {
      symbol = {Symbol::kFunction, static_cast<uint32_t>(functions_.size())};
      functions_.push_back({function.get(), index});
      continue;
    }
    LinkedFunction& known = functions_[symbol.index];
    if (!function->has_body) continue;
    if (!known.decl->has_body || (known.decl->linkage == Linkage::kWeak && function->linkage == Linkage::kVisible)) {
      known = {function.get(), index};
    } else if (known.decl->linkage != Linkage::kWeak && function->linkage != Linkage::kWeak) {
      return Error(function->line, fmt::format("function '{}' is defined twice", function->name));
    }
  }
  for (const VariableDecl& variable : unit.variables) {
    auto& table = IsShared(variable.linkage) ? global_symbols_ : unit_symbols_[index];
    Symbol& symbol = table[variable.name];
    if (symbol.kind == Symbol::kFunction) return Error(variable.line, fmt::format("'{}' is a function already", variable.name));
    if (symbol.kind == Symbol::kNone) {
      symbol = {Symbol::kVariable, static_cast<uint32_t>(variables_.size())};
      variables_.push_back({&variable, index, 0});
      continue;
    }
    PlacedVariable& known = variables_[symbol.index];
    if (variable.linkage == Linkage::kExtern) continue;
    if (known.decl->linkage == Linkage::kExtern ||
        (known.decl->linkage == Linkage::kWeak && variable.linkage == Linkage::kVisible) ||
        (known.decl->linkage == Linkage::kCommon && variable.size_bytes > known.decl->size_bytes)) {
      known = {&variable, index, 0};
    } else if (known.decl->linkage == Linkage::kVisible && variable.linkage == Linkage::kVisible) {
      return Error(variable.line, fmt::format("variable '{}' is defined twice", variable.name));
    }
  }
  return Status::Ok();
}

Status Program::Place(const VariableDecl& decl, uint64_t* address, bool* kept) {
  const uint64_t size = decl.opaque ? 8 : std::max<uint64_t>(decl.size_bytes, 1);
  const uint64_t alignment = std::max<uint64_t>(decl.alignment_bytes, 8);
  *kept = false;
  Result<uint64_t> memory =
      decl.managed ? allocator_->AllocateManaged(size, alignment, kept) : allocator_->Allocate(size, alignment);
  if (!memory.ok()) return memory.status();
  *address = memory.value();
  allocated_.push_back(*address);
  if (!*kept) std::memset(reinterpret_cast<void*>(*address), 0, size);
  return Status::Ok();
}

Status Program::CheckConstants() const {
  constexpr uint64_t kConstBytesMax = uint64_t{64} << 10;  // of a module, as hardware has it
  uint64_t end = 0;
  const auto add = [&](const VariableDecl& decl) {
    if (decl.space != Space::kConst || decl.linkage == Linkage::kExtern) return Status::Ok();
    const uint64_t alignment = std::max<uint64_t>(decl.alignment_bytes, 1);
    const uint64_t begin = (end + alignment - 1) / alignment * alignment;
    if (decl.size_bytes > kConstBytesMax || begin + decl.size_bytes > kConstBytesMax) {
      return Error(decl.line,
                   fmt::format("with '{}' the module has more than {} bytes of constant memory", decl.name, kConstBytesMax));
    }
    end = begin + decl.size_bytes;
    return Status::Ok();
  };
  for (const PlacedVariable& variable : variables_) RETURN_IF_ERROR(add(*variable.decl));
  for (const LinkedFunction& function : functions_) {
    for (const VariableDecl& decl : function.decl->variables) RETURN_IF_ERROR(add(decl));
  }
  return Status::Ok();
}

Status Program::PlaceVariables() {
  RETURN_IF_ERROR(CheckConstants());
  for (PlacedVariable& variable : variables_) {
    const Space space = variable.decl->space;
    if (space != Space::kGlobal && space != Space::kConst) continue;
    if (variable.decl->linkage == Linkage::kExtern) {
      return Error(variable.decl->line, fmt::format("variable '{}' is not defined in any text", variable.decl->name));
    }
    RETURN_IF_ERROR(Place(*variable.decl, &variable.address, &variable.kept));
  }
  for (const LinkedFunction& function : functions_) {
    for (const VariableDecl& decl : function.decl->variables) {
      if (decl.space == Space::kGlobal || decl.space == Space::kConst) {
        bool kept = false;
        RETURN_IF_ERROR(Place(decl, &function_statics_[&decl], &kept));
      }
    }
  }
  for (const PlacedVariable& variable : variables_) {
    if (variable.address != 0 && !variable.kept) RETURN_IF_ERROR(Initialize(*variable.decl, variable.unit, variable.address));
  }
  for (const LinkedFunction& function : functions_) {
    for (const VariableDecl& decl : function.decl->variables) {
      if (auto found = function_statics_.find(&decl); found != function_statics_.end()) {
        RETURN_IF_ERROR(Initialize(decl, function.unit, found->second));
      }
    }
  }
  return Status::Ok();
}

Result<uint64_t> Program::SymbolAddress(uint32_t unit, std::string_view name, uint32_t line) {
  const Symbol symbol = Find(unit, name);
  if (symbol.kind == Symbol::kFunction) {
    address_taken_.push_back(symbol.index);
    return kFunctionWindow + symbol.index * kFunctionStride;
  }
  if (symbol.kind == Symbol::kVariable && variables_[symbol.index].address != 0) return variables_[symbol.index].address;
  return Error(line, fmt::format("an initialiser names '{}', which has no address in global memory", name));
}

Status Program::Initialize(const VariableDecl& decl, uint32_t unit, uint64_t address) {
  const uint32_t element = decl.type.size_bytes;
  auto* target = reinterpret_cast<uint8_t*>(address);
  if (decl.initializer.size() * element > decl.size_bytes)
    return Error(decl.line, fmt::format("'{}' has too many initialisers", decl.name));
  for (const Initializer& value : decl.initializer) {
    uint64_t bits = value.bits;
    if (value.kind == Initializer::kSymbol) {
      Result<uint64_t> symbol = SymbolAddress(unit, value.symbol, decl.line);
      if (!symbol.ok()) return symbol.status();
      bits = *symbol + static_cast<uint64_t>(value.offset);
      if (value.mask != 0)
        bits = (bits & value.mask) >> std::countr_zero(value.mask);
      else if (element != 8)
        return Error(decl.line, fmt::format("'{}' holds an address in {} bytes", decl.name, element));
    } else if (value.kind == Initializer::kFloat) {
      const double number = value.float_bytes == 4 ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(value.bits)))
                                                   : std::bit_cast<double>(value.bits);
      if (decl.type.IsFloat() && element == 4)
        bits = std::bit_cast<uint32_t>(static_cast<float>(number));
      else if (decl.type.IsFloat() && element == 8)
        bits = std::bit_cast<uint64_t>(number);
      else
        return Error(decl.line, fmt::format("'{}' has a floating-point initialiser", decl.name));
    } else if (decl.type.IsFloat() && element == 4) {
      bits = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int64_t>(bits)));
    } else if (decl.type.IsFloat() && element == 8) {
      bits = std::bit_cast<uint64_t>(static_cast<double>(static_cast<int64_t>(bits)));
    }
    if (element > 8) return Error(decl.line, fmt::format("'{}' has initialisers of more than 8 bytes", decl.name));
    std::memcpy(target, &bits, element);
    target += element;
  }
  return Status::Ok();
}

Result<std::unique_ptr<Program>> Program::Link(std::vector<std::unique_ptr<Unit>> units, GlobalAllocator& allocator) {
  auto program = std::make_unique<Program>();
  program->allocator_ = &allocator;
  program->units_ = std::move(units);
  program->unit_symbols_.resize(program->units_.size());
  for (uint32_t i = 0; i < program->units_.size(); ++i) RETURN_IF_ERROR(program->DeclareUnit(i));
  for (uint32_t i = 0; i < program->units_.size(); ++i) {
    for (const Alias& alias : program->units_[i]->aliases) {
      const Symbol symbol = program->Find(i, alias.target);
      if (symbol.kind != Symbol::kFunction) return Error(0, fmt::format("alias '{}' names no function", alias.name));
      program->global_symbols_[alias.name] = symbol;
      program->unit_symbols_[i][alias.name] = symbol;
    }
  }
  RETURN_IF_ERROR(program->PlaceVariables());
  const auto found = program->global_symbols_.find("vprintf");
  program->uses_printf_ = found != program->global_symbols_.end() && found->second.kind == Symbol::kFunction;
  return program;
}

}  // namespace tessera::emulator
