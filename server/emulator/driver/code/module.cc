#include "server/emulator/driver/code/module.h"

#include <string.h>

#include <fstream>
#include <iterator>

#include "protocol/base/log.h"

namespace tessera::emulator {
namespace {

constexpr uint32_t kArchitecture = 90;
constexpr std::string_view kLinkedPrefix = "// tessera-linked";

// Memory for variables of code that is only looked at.
class ScratchAllocator : public GlobalAllocator {
 public:
  explicit ScratchAllocator(ManagedVariables& managed) : managed_(managed) {}
  Result<uint64_t> Allocate(uint64_t size_bytes, uint64_t) override {
    const uint64_t base = MemoryTable::MapPages(std::max<uint64_t>(size_bytes, 1), false);
    if (base == 0) return Status(StatusCode::kResourceExhausted, "no memory for a module's variables");
    sizes_[base] = RoundUp(std::max<uint64_t>(size_bytes, 1), kPageBytes);
    return base;
  }
  Result<uint64_t> AllocateManaged(uint64_t size_bytes, uint64_t, bool* kept) override {
    return managed_.Place(managed_count_++, size_bytes, kept);
  }
  void Free(uint64_t address) override {
    if (sizes_.contains(address)) GetDriver().memory.RetirePages(address, sizes_[address]);
  }

 private:
  ManagedVariables& managed_;
  size_t managed_count_ = 0;
  std::map<uint64_t, uint64_t> sizes_;
};

CUresult ResultOf(const Status& status, CUresult invalid) {
  switch (status.code()) {
    case StatusCode::kResourceExhausted: return CUDA_ERROR_OUT_OF_MEMORY;
    case StatusCode::kNotFound: return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case StatusCode::kUnsupported: return CUDA_ERROR_NOT_SUPPORTED;
    default: return invalid;
  }
}

std::vector<std::string_view> Views(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

CUresult Compile(const std::vector<std::string>& texts, GlobalAllocator& allocator, std::unique_ptr<Module>* module,
                 std::string* log) {
  auto compiled = Module::Compile(Views(texts), allocator);
  if (!compiled.ok()) {
    *log = compiled.status().message();
    return ResultOf(compiled.status(), CUDA_ERROR_INVALID_PTX);
  }
  *module = std::move(compiled).value();
  return CUDA_SUCCESS;
}

Result<std::span<const std::byte>> PartAt(const void* pointer) {
  const auto* bytes = static_cast<const std::byte*>(pointer);
  uint32_t magic;
  memcpy(&magic, bytes, sizeof magic);
  if (magic == kFatbinMagic) {
    uint16_t header_bytes;
    uint64_t payload_bytes;
    memcpy(&header_bytes, bytes + 6, sizeof header_bytes);
    memcpy(&payload_bytes, bytes + 8, sizeof payload_bytes);
    return std::span(bytes, header_bytes + payload_bytes);
  }
  if (memcmp(bytes, "\177ELF", 4) == 0) {
    // The extent follows from the section table; nothing beyond it is read.
    auto size = code_image::PartSize(std::span(bytes, size_t{1} << 40));
    if (!size.ok()) return size.status();
    return std::span(bytes, size.value());
  }
  return std::span(bytes, strlen(static_cast<const char*>(pointer)));
}

CUresult SelectParts(const std::vector<std::span<const std::byte>>& parts, Selection* selection, std::string* log) {
  auto decoded = code_image::DecodeImage(parts, kArchitecture);
  if (!decoded.ok()) {
    *log = decoded.status().message();
    return ResultOf(decoded.status(), CUDA_ERROR_INVALID_IMAGE);
  }
  auto selected = code_image::SelectImage(decoded.value(), kArchitecture);
  if (!selected.ok()) {
    *log = selected.status().message();
    return ResultOf(selected.status(), CUDA_ERROR_INVALID_IMAGE);
  }
  *selection = std::move(selected).value();
  std::vector<std::string> texts;
  for (const std::string& text : selection->ptx_texts) {
    for (std::string& part : SplitLinkedText(text)) texts.push_back(std::move(part));
  }
  selection->ptx_texts = std::move(texts);
  return CUDA_SUCCESS;
}

}  // namespace

KernelInfo InfoOfCubin(const CubinKernel& kernel) {
  KernelInfo info;
  info.name = kernel.name;
  for (const CubinParameter& parameter : kernel.parameters) {
    info.parameters.push_back({parameter.offset_bytes, parameter.size_bytes});
    info.parameter_bytes = std::max(info.parameter_bytes, parameter.offset_bytes + parameter.size_bytes);
  }
  if (kernel.max_threads_per_block != 0) info.max_threads_per_block = kernel.max_threads_per_block;
  info.register_count = kernel.register_count;
  info.static_shared_bytes = kernel.static_shared_bytes;
  info.target_sm = kArchitecture;
  return info;
}

CUresult LoadedModule::Load(const ContextPtr& context, const Selection& selection, ModulePtr* out, std::string* log,
                            std::shared_ptr<ManagedVariables> managed) {
  if (managed == nullptr) managed = std::make_shared<ManagedVariables>();
  ModulePtr module(new LoadedModule(context, std::move(managed)));
  if (!selection.ptx_texts.empty()) {
    RETURN_ON_ERROR(Compile(selection.ptx_texts, module->allocator_, &module->ptx_, log));
    for (const auto& kernel : module->ptx_->kernels()) module->kernel_names_.push_back(kernel->info().name);
  } else {
    module->cubin_kernels_ = selection.kernels;
    for (const CubinKernel& kernel : selection.kernels) module->kernel_names_.push_back(kernel.name);
    for (const CubinVariable& variable : selection.variables) {
      auto address = module->allocator_.Allocate(variable.size_bytes, 1);
      if (!address.ok()) {
        *log = address.status().message();
        return CUDA_ERROR_OUT_OF_MEMORY;
      }
      module->cubin_variables_[variable.name] = {address.value(), variable.size_bytes};
    }
  }
  *out = std::move(module);
  return CUDA_SUCCESS;
}

LoadedModule::~LoadedModule() {
  ptx_.reset();
  for (const auto& [name, place] : cubin_variables_) allocator_.Free(place.first);
}

FunctionPtr LoadedModule::FindFunction(const std::string& name) {
  std::lock_guard lock(mutex_);
  if (auto found = functions_.find(name); found != functions_.end()) return GetDriver().functions.Find(found->second);
  const Kernel* kernel = nullptr;
  KernelInfo info;
  if (ptx_ != nullptr) {
    kernel = ptx_->FindKernel(name);
    if (kernel == nullptr) return nullptr;
    info = kernel->info();
  } else {
    const CubinKernel* match = nullptr;
    for (const CubinKernel& candidate : cubin_kernels_) {
      if (candidate.name == name) match = &candidate;
    }
    if (match == nullptr) return nullptr;
    info = InfoOfCubin(*match);
  }
  auto settings = settings_for ? settings_for(name) : nullptr;
  if (settings == nullptr) settings = std::make_shared<FunctionSettings>();
  auto function = std::make_shared<Function>(shared_from_this(), kernel, std::move(info), std::move(settings));
  function->handle = reinterpret_cast<CUfunction>(GetDriver().functions.Mint());
  GetDriver().functions.Put(reinterpret_cast<uint64_t>(function->handle), function);
  functions_[name] = function->handle;
  return function;
}

bool LoadedModule::FindVariable(const std::string& name, uint64_t* address, uint64_t* size_bytes) const {
  if (ptx_ != nullptr) {
    const Variable* variable = ptx_->FindVariable(name);
    if (variable == nullptr) return false;
    *address = variable->address;
    *size_bytes = variable->size_bytes;
    return true;
  }
  auto found = cubin_variables_.find(name);
  if (found == cubin_variables_.end()) return false;
  *address = found->second.first;
  *size_bytes = found->second.second;
  return true;
}

void LoadedModule::Forget() {
  std::lock_guard lock(mutex_);
  for (const auto& [name, function] : functions_) GetDriver().functions.Remove(function);
  functions_.clear();
}

CUresult Library::Load(Selection selection, LibraryPtr* out, std::string* log) {
  auto library = std::make_shared<Library>();
  std::vector<KernelInfo> infos;
  if (!selection.ptx_texts.empty()) {
    // Managed variables exist from now on, without any context.
    ScratchAllocator allocator(*library->managed_);
    std::unique_ptr<Module> module;
    RETURN_ON_ERROR(Compile(selection.ptx_texts, allocator, &module, log));
    for (const auto& kernel : module->kernels()) infos.push_back(kernel->info());
    for (const Variable& variable : module->variables()) {
      if (variable.is_managed) library->managed_places_[variable.name] = {variable.address, variable.size_bytes};
    }
  } else {
    for (const CubinKernel& kernel : selection.kernels) infos.push_back(InfoOfCubin(kernel));
  }
  library->selection_ = std::move(selection);
  for (KernelInfo& info : infos) {
    auto kernel = std::make_shared<LibraryKernel>();
    kernel->library = library;
    kernel->info = std::move(info);
    for (auto& settings : kernel->settings) settings = std::make_shared<FunctionSettings>();
    kernel->handle = reinterpret_cast<CUkernel>(GetDriver().kernels.Mint());
    GetDriver().kernels.Put(reinterpret_cast<uint64_t>(kernel->handle), kernel);
    library->kernels_.push_back(std::move(kernel));
  }
  *out = std::move(library);
  return CUDA_SUCCESS;
}

CUresult Library::ModuleIn(const ContextPtr& current, ModulePtr* module) {
  const ContextPtr context = current->owner();
  std::lock_guard lock(mutex_);
  ModulePtr& slot = modules_[context->handle()];
  if (slot == nullptr) {
    std::string log;
    if (CUresult result = LoadedModule::Load(context, selection_, &slot, &log, managed_); result != CUDA_SUCCESS) {
      modules_.erase(context->handle());
      LogWarning("the emulator could not load a library into a context: {}", log);
      return result;
    }
    const int device = context->device().number();
    slot->settings_for = [weak = weak_from_this(), device](const std::string& name) {
      const LibraryPtr library = weak.lock();
      const auto kernel = library != nullptr ? library->FindKernel(name) : nullptr;
      return kernel != nullptr ? kernel->settings[device] : nullptr;
    };
    slot->handle = reinterpret_cast<CUmodule>(GetDriver().modules.Mint());
    GetDriver().modules.Put(reinterpret_cast<uint64_t>(slot->handle), slot);
  }
  *module = slot;
  return CUDA_SUCCESS;
}

bool Library::FindManaged(const std::string& name, uint64_t* address, uint64_t* size_bytes) const {
  const auto found = managed_places_.find(name);
  if (found == managed_places_.end()) return false;
  *address = found->second.first;
  *size_bytes = found->second.second;
  return true;
}

std::shared_ptr<LibraryKernel> Library::FindKernel(const std::string& name) const {
  for (const auto& kernel : kernels_) {
    if (kernel->info.name == name) return kernel;
  }
  return nullptr;
}

void Library::ForgetContext(uint64_t context_handle) {
  std::lock_guard lock(mutex_);
  modules_.erase(context_handle);
}

void Library::Forget() {
  for (const auto& kernel : kernels_) GetDriver().kernels.Remove(kernel->handle);
  std::lock_guard lock(mutex_);
  for (const auto& [context, module] : modules_) {
    GetDriver().modules.Remove(module->handle);
    module->Forget();
  }
  modules_.clear();
}

void ForgetModulesOf(Context& context) {
  Driver& driver = GetDriver();
  for (const LibraryPtr& library : driver.libraries.All()) library->ForgetContext(context.handle());
  for (const ModulePtr& module :
       driver.modules.RemoveIf([&](const LoadedModule& candidate) { return candidate.context_handle() == context.handle(); })) {
    module->Forget();
  }
}

CUresult ResolveFunction(const ContextPtr& context, CUfunction handle, FunctionPtr* function) {
  *function = GetDriver().functions.Find(handle);
  if (*function != nullptr) return CUDA_SUCCESS;
  const auto kernel = GetDriver().kernels.Find(handle);
  const LibraryPtr library = kernel != nullptr ? kernel->library.lock() : nullptr;
  RETURN_IF(library == nullptr, CUDA_ERROR_INVALID_HANDLE);
  ModulePtr module;
  RETURN_ON_ERROR(library->ModuleIn(context, &module));
  *function = module->FindFunction(kernel->info.name);
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult SelectFromMemory(const void* image, Selection* selection, std::string* log) {
  struct Wrapper {
    uint32_t magic;
    uint32_t version;
    const void* data;
    const void* more;
  };
  std::vector<const void*> pointers;
  uint32_t magic;
  memcpy(&magic, image, sizeof magic);
  if (magic == kWrapperMagic) {
    Wrapper wrapper;
    memcpy(&wrapper, image, sizeof wrapper);
    RETURN_IF(wrapper.data == nullptr, CUDA_ERROR_INVALID_IMAGE);
    pointers.push_back(wrapper.data);
    if (wrapper.version == 2 && wrapper.more != nullptr) {
      for (auto member = static_cast<const void* const*>(wrapper.more); *member != nullptr; ++member) {
        pointers.push_back(*member);
      }
    }
  } else {
    pointers.push_back(image);
  }
  std::vector<std::span<const std::byte>> parts;
  for (const void* pointer : pointers) {
    auto part = PartAt(pointer);
    if (!part.ok()) {
      *log = part.status().message();
      return CUDA_ERROR_INVALID_IMAGE;
    }
    parts.push_back(part.value());
  }
  return SelectParts(parts, selection, log);
}

CUresult SelectFromFile(const char* path, Selection* selection, std::string* log) {
  std::ifstream file(path, std::ios::binary);
  RETURN_IF(!file, CUDA_ERROR_FILE_NOT_FOUND);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return SelectParts({std::as_bytes(std::span(bytes))}, selection, log);
}

std::string JoinLinkedTexts(const std::vector<std::string>& texts) {
  if (texts.size() == 1) return texts[0];
  std::string joined(kLinkedPrefix);
  for (const std::string& text : texts) joined += " " + std::to_string(text.size());
  joined += "\n";
  for (const std::string& text : texts) joined += text;
  return joined;
}

std::vector<std::string> SplitLinkedText(std::string_view text) {
  const size_t line_end = text.find('\n');
  if (!text.starts_with(kLinkedPrefix) || line_end == std::string_view::npos) return {std::string(text)};
  std::vector<std::string> texts;
  size_t offset = line_end + 1;
  std::string sizes(text.substr(kLinkedPrefix.size(), line_end - kLinkedPrefix.size()));
  char* next = sizes.data();
  for (char* end;; next = end) {
    const size_t size = strtoull(next, &end, 10);
    if (end == next) break;
    if (size > text.size() - offset) return {std::string(text)};
    texts.emplace_back(text.substr(offset, size));
    offset += size;
  }
  return texts;
}

CUresult CheckTexts(const std::vector<std::string>& texts, std::string* log) {
  ManagedVariables managed;
  ScratchAllocator allocator(managed);
  std::unique_ptr<Module> module;
  return Compile(texts, allocator, &module, log);
}

JitOptions::JitOptions(unsigned count, const CUjit_option* options, void** values) {
  if (options == nullptr || values == nullptr) return;
  const auto is_size = [](Log& log, void** value) {
    log.size = value;
    log.capacity = static_cast<unsigned>(reinterpret_cast<uintptr_t>(*value));
  };
  for (unsigned i = 0; i < count; ++i) {
    switch (options[i]) {
      case CU_JIT_ERROR_LOG_BUFFER: error_.buffer = static_cast<char*>(values[i]); break;
      case CU_JIT_INFO_LOG_BUFFER: info_.buffer = static_cast<char*>(values[i]); break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: is_size(error_, &values[i]); break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: is_size(info_, &values[i]); break;
      case CU_JIT_WALL_TIME: wall_time_ = &values[i]; break;
      default: break;
    }
  }
}

void JitOptions::Write(const Log& log, const std::string& text) {
  if (log.size == nullptr) return;
  size_t written = 0;
  if (log.buffer != nullptr && log.capacity != 0) {
    written = std::min(text.size(), log.capacity - 1);
    memcpy(log.buffer, text.data(), written);
    log.buffer[written] = 0;
  }
  *log.size = reinterpret_cast<void*>(written);
}

void JitOptions::WriteLogs(const std::string& error, const std::string& info) {
  Write(error_, error);
  Write(info_, info);
  if (wall_time_ != nullptr) *wall_time_ = nullptr;  // 0.0f milliseconds
}

}  // namespace tessera::emulator
