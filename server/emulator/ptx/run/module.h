// A PTX module as the emulator holds it: parsed, linked, its variables placed in memory, its kernels described.
//
// Compile() accepts PTX as nvcc 13 and NVRTC 13 write it (ISA up to 9.0, .address_size 64). Several texts are linked
// together as nvlink would (.extern against .visible/.weak). Unknown syntax fails Compile(); an unknown instruction
// fails only the launch of a kernel that contains or calls it, naming the instruction and its line.
// A Module is immutable after Compile() apart from lazily lowered functions (behind a lock): any thread may use it.
// Source: PTX ISA 9.0, "Directives", "State Spaces, Types, and Variables".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"
#include "server/emulator/ptx/run/global_allocator.h"

namespace tessera::emulator {

struct Parameter {
  uint32_t offset_bytes = 0;
  uint32_t size_bytes = 0;
};

struct Variable {
  std::string name;
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  bool is_const = false;
  bool is_managed = false;
};

// What the driver's function queries need to know of a kernel.
struct KernelInfo {
  std::string name;
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;  // size of the packed parameter buffer
  uint32_t static_shared_bytes = 0;
  uint32_t const_bytes = 0;                  // user constants of the module
  uint32_t local_bytes = 0;                  // per thread, of the kernel itself and what it calls directly
  uint32_t max_threads_per_block = 1024;     // .maxntid / .reqntid, else 1024
  uint32_t register_count = 0;               // an estimate: a software device has no register file
  uint32_t ptx_version = 0;                  // 90 for 9.0
  uint32_t target_sm = 0;                    // 75, 90, ...
  uint32_t required_block[3] = {0, 0, 0};    // .reqntid, 0 when absent
  uint32_t required_cluster[3] = {0, 0, 0};  // .reqnctapercluster / .explicitcluster, 0 when absent
  int32_t duration_parameter = -1;           // which one says for how many µs the kernel occupies the device
  bool needs_cluster = false;
  bool names_clusters = false;  // its module's text does: what it does may depend on how blocks are put together
};

class Program;  // internal form, server/emulator/ptx/run/program.h

// One .entry of a Module; lives as long as the Module.
class Kernel {
 public:
  const KernelInfo& info() const { return info_; }

 private:
  friend class Module;
  friend class Program;
  friend struct KernelAccess;
  KernelInfo info_;
  Program* program_ = nullptr;
  uint32_t function_ = 0;
};

class Module {
 public:
  // Parses and links `ptx_texts` (each with or without a trailing NUL) and places their variables. The allocator must
  // outlive the Module. Errors: kInvalidArgument with "ptx line N: ..." for text that does not parse or link,
  // kUnsupported for a target or address size the emulator does not have, or what the allocator returned.
  static Result<std::unique_ptr<Module>> Compile(const std::vector<std::string_view>& ptx_texts, GlobalAllocator& allocator);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Null when there is no such kernel.
  const Kernel* FindKernel(std::string_view name) const;
  const Variable* FindVariable(std::string_view name) const;
  // In order of appearance.
  const std::vector<std::unique_ptr<Kernel>>& kernels() const { return kernels_; }
  const std::vector<Variable>& variables() const { return variables_; }
  // True when a function of the module calls vprintf: the driver must then forward output at synchronisation.
  bool uses_printf() const;

 private:
  Module();
  std::unique_ptr<Program> program_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Variable> variables_;
};

// Lowers `kernel` and everything it calls, so that what a launch would refuse is known beforehand. Any thread.
Status Prepare(const Kernel& kernel);

}  // namespace tessera::emulator
