#include "server/emulator/ptx/run/module.h"

#include <algorithm>

#include "server/emulator/ptx/parse/parser.h"
#include "server/emulator/ptx/run/program.h"

namespace tessera::emulator {

struct KernelAccess {
  static Program* program(const Kernel& kernel) { return kernel.program_; }
  static uint32_t function(const Kernel& kernel) { return kernel.function_; }
};

namespace {

void Describe(const LinkedFunction& function, const Program& program, KernelInfo* info) {
  const FunctionDecl& decl = *function.decl;
  info->name = std::string(decl.name);
  uint64_t offset = 0;
  for (const Formal& formal : decl.formals) {
    const VariableDecl& variable = decl.variables[formal.index];
    offset = (offset + variable.alignment_bytes - 1) / variable.alignment_bytes * variable.alignment_bytes;
    info->parameters.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(variable.size_bytes)});
    offset += variable.size_bytes;
  }
  info->parameter_bytes = static_cast<uint32_t>(offset);
  info->duration_parameter = decl.duration_formal;
  uint64_t local = 0;
  for (const VariableDecl& variable : decl.variables) {
    if (variable.space == Space::kLocal) local += variable.size_bytes;
  }
  info->local_bytes = static_cast<uint32_t>(local);
  for (const PlacedVariable& variable : program.variables()) {
    if (variable.decl->space == Space::kConst) info->const_bytes += static_cast<uint32_t>(variable.decl->size_bytes);
  }
  const uint32_t* limit = decl.required_threads[0] != 0 ? decl.required_threads : decl.max_threads;
  if (limit[0] != 0) {
    const uint64_t threads = static_cast<uint64_t>(limit[0]) * limit[1] * limit[2];
    info->max_threads_per_block = static_cast<uint32_t>(std::min<uint64_t>(threads, 1024));
  }
  std::copy(decl.required_threads, decl.required_threads + 3, info->required_block);
  std::copy(decl.required_cluster, decl.required_cluster + 3, info->required_cluster);
  info->needs_cluster = decl.explicit_cluster || decl.required_cluster[0] != 0;
  // Virtual registers are many more than a compiler would allocate; a third, at least 16, comes near for small kernels. No
  // more than what lets a full block be resident in 65,536 registers, so that launches a device allows stay allowed.
  uint32_t registers = std::clamp<uint32_t>(decl.declared_32bit_registers / 3 + 8, 16, 255);
  registers = std::min(registers, std::max(16u, 65536u / std::max(info->max_threads_per_block, 32u)));
  if (decl.max_registers != 0) registers = std::min(registers, decl.max_registers);
  info->register_count = registers;
  const Unit& unit = program.unit(function.unit);
  info->names_clusters = unit.text.find("cluster") != std::string::npos;
  info->ptx_version = unit.version;
  info->target_sm = unit.target_sm;
}

}  // namespace

Module::Module() = default;
Module::~Module() = default;

Result<std::unique_ptr<Module>> Module::Compile(const std::vector<std::string_view>& ptx_texts, GlobalAllocator& allocator) {
  if (ptx_texts.empty()) return Status(StatusCode::kInvalidArgument, "a module needs at least one ptx text");
  std::vector<std::unique_ptr<Unit>> units;
  for (std::string_view text : ptx_texts) {
    Result<std::unique_ptr<Unit>> unit = ParsePtx(text);
    if (!unit.ok()) return unit.status();
    units.push_back(std::move(unit).value());
  }
  Result<std::unique_ptr<Program>> program = Program::Link(std::move(units), allocator);
  if (!program.ok()) return program.status();
  std::unique_ptr<Module> module(new Module);
  module->program_ = std::move(program).value();
  const auto& functions = module->program_->functions();
  for (uint32_t i = 0; i < functions.size(); ++i) {
    if (!functions[i].decl->is_entry || !functions[i].decl->has_body) continue;
    auto kernel = std::make_unique<Kernel>();
    for (const Formal& formal : functions[i].decl->formals) {
      if (formal.is_register) return Status(StatusCode::kInvalidArgument, "a kernel has a register as its parameter");
    }
    Describe(functions[i], *module->program_, &kernel->info_);
    kernel->info_.static_shared_bytes = module->program_->StaticSharedBytes(i);
    kernel->program_ = module->program_.get();
    kernel->function_ = i;
    module->kernels_.push_back(std::move(kernel));
  }
  for (const PlacedVariable& variable : module->program_->variables()) {
    if (variable.address == 0) continue;
    module->variables_.push_back({std::string(variable.decl->name), variable.address, variable.decl->size_bytes,
                                  variable.decl->space == Space::kConst, variable.decl->managed});
  }
  return module;
}

const Kernel* Module::FindKernel(std::string_view name) const {
  for (const auto& kernel : kernels_) {
    if (kernel->info().name == name) return kernel.get();
  }
  return nullptr;
}

const Variable* Module::FindVariable(std::string_view name) const {
  for (const Variable& variable : variables_) {
    if (variable.name == name) return &variable;
  }
  return nullptr;
}

bool Module::uses_printf() const { return program_->uses_printf(); }

Result<const Executable*> PrepareExecutable(const Kernel& kernel) {
  return KernelAccess::program(kernel)->Prepare(KernelAccess::function(kernel));
}

Status Prepare(const Kernel& kernel) {
  Result<const Executable*> executable = PrepareExecutable(kernel);
  return executable.ok() ? Status::Ok() : executable.status();
}

}  // namespace tessera::emulator
