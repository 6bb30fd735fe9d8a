// Loaded code: modules of one context, libraries of no context, and the functions of both.
//
// A launch keeps its function, and through it the module and its variables, alive. Registries hold everything until it is
// unloaded or its context ends. A module's function table has a lock of its own; the rest is set once.
// Source: CUDA driver API, "Module Management", "Library Management".
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/code_image/image.h"
#include "server/emulator/driver/memory/device_memory.h"
#include "server/emulator/ptx/run/module.h"

namespace tessera::emulator {

using code_image::CubinKernel;
using code_image::CubinParameter;
using code_image::CubinVariable;
using code_image::kFatbinMagic;
using code_image::kWrapperMagic;
using code_image::Selection;

// What cuFuncSetAttribute and cuKernelSetAttribute change.
struct FunctionSettings {
  std::atomic<int> max_dynamic_shared{-1};  // -1: 48 KiB less the static part
  std::atomic<int> carveout{-1};
  std::atomic<int> cluster_width{0}, cluster_height{0}, cluster_depth{0};
  std::atomic<int> non_portable_cluster{0};
  std::atomic<int> cluster_policy{0};
};

// KernelInfo of a PTX kernel, or as much of it as a cubin tells.
class Function {
 public:
  Function(std::shared_ptr<LoadedModule> module, const Kernel* kernel, KernelInfo info,
           std::shared_ptr<FunctionSettings> settings)
      : module_(std::move(module)), kernel_(kernel), info_(std::move(info)), settings_(std::move(settings)) {}
  const std::shared_ptr<LoadedModule>& module() const { return module_; }
  const Kernel* kernel() const { return kernel_; }  // null: machine code only, cannot run
  const KernelInfo& info() const { return info_; }
  FunctionSettings& settings() const { return *settings_; }
  CUfunction handle = nullptr;

 private:
  const std::shared_ptr<LoadedModule> module_;
  const Kernel* const kernel_;
  const KernelInfo info_;
  const std::shared_ptr<FunctionSettings> settings_;
};
using FunctionPtr = std::shared_ptr<Function>;

class LoadedModule : public std::enable_shared_from_this<LoadedModule> {
 public:
  using SettingsFor = std::function<std::shared_ptr<FunctionSettings>(const std::string& kernel)>;
  // Places the image's variables in the context; managed ones where `managed` has them, which null means nobody has. `log`
  // receives why it failed.
  static CUresult Load(const ContextPtr& context, const Selection& selection, std::shared_ptr<LoadedModule>* module,
                       std::string* log, std::shared_ptr<ManagedVariables> managed = nullptr);
  ~LoadedModule();

  uint64_t context_handle() const { return context_->handle(); }
  const ContextPtr& context() const { return context_; }
  // Names in order of appearance.
  const std::vector<std::string>& kernel_names() const { return kernel_names_; }
  // Null when there is no such kernel.
  FunctionPtr FindFunction(const std::string& name);
  bool FindVariable(const std::string& name, uint64_t* address, uint64_t* size_bytes) const;
  bool uses_printf() const { return ptx_ != nullptr && ptx_->uses_printf(); }
  // Takes its functions out of the registry.
  void Forget();

  CUmodule handle = nullptr;
  SettingsFor settings_for;  // of a library: settings shared with its kernels; set before the module is published

 private:
  LoadedModule(ContextPtr context, std::shared_ptr<ManagedVariables> managed)
      : context_(context), allocator_(std::move(context), std::move(managed)) {}
  const ContextPtr context_;
  VariableAllocator allocator_;
  std::unique_ptr<Module> ptx_;
  std::vector<CubinKernel> cubin_kernels_;
  std::map<std::string, std::pair<uint64_t, uint64_t>> cubin_variables_;
  std::vector<std::string> kernel_names_;
  std::mutex mutex_;
  std::map<std::string, CUfunction> functions_;
};
using ModulePtr = std::shared_ptr<LoadedModule>;

KernelInfo InfoOfCubin(const CubinKernel& kernel);

class LibraryKernel {
 public:
  std::weak_ptr<Library> library;
  KernelInfo info;
  CUkernel handle = nullptr;
  std::shared_ptr<FunctionSettings> settings[kMaxDevices];
};

class Library : public std::enable_shared_from_this<Library> {
 public:
  // Checks the code without a context.
  static CUresult Load(Selection selection, std::shared_ptr<Library>* library, std::string* log);
  // The library's module in `context`, loaded when it is first needed.
  CUresult ModuleIn(const ContextPtr& context, ModulePtr* module);
  std::shared_ptr<LibraryKernel> FindKernel(const std::string& name) const;
  bool FindManaged(const std::string& name, uint64_t* address, uint64_t* size_bytes) const;
  const std::vector<std::shared_ptr<LibraryKernel>>& kernels() const { return kernels_; }
  void ForgetContext(uint64_t context_handle);
  // Takes kernels and modules out of the registries.
  void Forget();
  CUlibrary handle = nullptr;

 private:
  Selection selection_;
  std::vector<std::shared_ptr<LibraryKernel>> kernels_;
  const std::shared_ptr<ManagedVariables> managed_ = std::make_shared<ManagedVariables>();
  std::map<std::string, std::pair<uint64_t, uint64_t>> managed_places_;  // by name: address, bytes
  std::mutex mutex_;
  std::map<uint64_t, ModulePtr> modules_;  // by context; guarded by mutex_
};
using LibraryPtr = std::shared_ptr<Library>;

// Unloads everything of a context that ends.
void ForgetModulesOf(Context& context);
// Any function handle a launch accepts: a CUfunction, or a CUkernel in the guise of one (resolved in `context`).
CUresult ResolveFunction(const ContextPtr& context, CUfunction handle, FunctionPtr* function);

// What the application handed over, decoded and chosen for the emulated device.
CUresult SelectFromMemory(const void* image, Selection* selection, std::string* log);
CUresult SelectFromFile(const char* path, Selection* selection, std::string* log);
// The texts inside what cuLinkComplete returned; one text for any other PTX.
std::vector<std::string> SplitLinkedText(std::string_view text);
std::string JoinLinkedTexts(const std::vector<std::string>& texts);
// Checks that the texts compile and link, without a context.
CUresult CheckTexts(const std::vector<std::string>& texts, std::string* log);

// The options of cuModuleLoadDataEx, cuLibraryLoadData and cuLink*: where logs go.
// Reads the sizes of logs when it is made, as they are overwritten with how much was written; the caller's values and logs must
// live as long as it.
class JitOptions {
 public:
  JitOptions() = default;
  JitOptions(unsigned count, const CUjit_option* options, void** values);
  // Writes the logs and sizes the caller asked for.
  void WriteLogs(const std::string& error, const std::string& info);

 private:
  struct Log {
    char* buffer = nullptr;
    size_t capacity = 0;
    void** size = nullptr;  // null: not asked for
  };
  static void Write(const Log& log, const std::string& text);
  Log error_, info_;
  void** wall_time_ = nullptr;
};

}  // namespace tessera::emulator
