// Modules and their functions and variables.
#include "protocol/base/log.h"
#include "server/emulator/driver/code/function_attributes.h"
#include "server/emulator/driver/code/module.h"
#include "server/emulator/driver/graphs/capture.h"

using namespace tessera::emulator;
using tessera::LogWarning;

namespace {

CUresult LoadSelected(const ContextPtr& context, const Selection& selection, CUmodule* out, JitOptions options) {
  ModulePtr module;
  std::string log;
  const CUresult result = LoadedModule::Load(context->owner(), selection, &module, &log);
  options.WriteLogs(log, "");
  if (result != CUDA_SUCCESS) {
    LogWarning("the emulator could not load a module: {}", log);
    return result;
  }
  context->FlushPrint();
  module->handle = reinterpret_cast<CUmodule>(GetDriver().modules.Mint());
  GetDriver().modules.Put(reinterpret_cast<uint64_t>(module->handle), module);
  *out = module->handle;
  return CUDA_SUCCESS;
}

CUresult EnterModule(CUmodule handle, ModulePtr* module) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  *module = GetDriver().modules.Find(handle);
  return *module != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult EnterFunction(CUfunction handle, FunctionPtr* function) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  return ResolveFunction(context, handle, function);
}

CUresult LoadModule(CUmodule* module, const void* image, unsigned numOptions, CUjit_option* options, void** optionValues) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(module == nullptr || image == nullptr || (numOptions != 0 && (options == nullptr || optionValues == nullptr)),
            CUDA_ERROR_INVALID_VALUE);
  JitOptions jit(numOptions, options, optionValues);
  Selection selection;
  std::string log;
  if (CUresult result = SelectFromMemory(image, &selection, &log); result != CUDA_SUCCESS) {
    jit.WriteLogs(log, "");
    LogWarning("the emulator could not read an image: {}", log);
    return result;
  }
  return LoadSelected(context, selection, module, jit);
}

// The public functions take what a wrapper points to, not itself.
bool IsWrapper(const void* image) {
  uint32_t magic = 0;
  if (image != nullptr) memcpy(&magic, image, 1);
  if (magic != (kWrapperMagic & 0xff)) return false;  // text may be shorter than a magic number
  memcpy(&magic, image, sizeof magic);
  return magic == kWrapperMagic;
}

}  // namespace

extern "C" {

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions, CUjit_option* options,
                            void** optionValues) {
  RETURN_IF(IsWrapper(image), CUDA_ERROR_INVALID_IMAGE);
  return LoadModule(module, image, numOptions, options, optionValues);
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) { return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr); }
// And wrappers: what the driver has a function without a name for.
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
  return LoadModule(module, fatCubin, 0, nullptr, nullptr);
}

CUresult cuModuleLoad(CUmodule* module, const char* fname) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(module == nullptr || fname == nullptr, CUDA_ERROR_INVALID_VALUE);
  Selection selection;
  std::string log;
  RETURN_ON_ERROR(SelectFromFile(fname, &selection, &log));
  return LoadSelected(context, selection, module, JitOptions(0, nullptr, nullptr));
}

CUresult cuModuleUnload(CUmodule hmod) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_ON_ERROR(CheckUnsafeCall());
  const ModulePtr module = GetDriver().modules.Find(hmod);
  RETURN_IF(module == nullptr, CUDA_ERROR_INVALID_HANDLE);
  RETURN_IF(module->settings_for != nullptr, CUDA_ERROR_NOT_PERMITTED);  // belongs to a library
  RETURN_ON_ERROR(module->context()->Synchronize());
  GetDriver().modules.Remove(hmod);
  module->Forget();
  return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  RETURN_IF(mode == nullptr, CUDA_ERROR_INVALID_VALUE);
  *mode = GetOptions().eager_loading ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  ModulePtr module;
  RETURN_ON_ERROR(EnterModule(hmod, &module));
  RETURN_IF(hfunc == nullptr || name == nullptr, CUDA_ERROR_INVALID_VALUE);
  const FunctionPtr function = module->FindFunction(name);
  RETURN_IF(function == nullptr, CUDA_ERROR_NOT_FOUND);
  *hfunc = function->handle;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
  ModulePtr module;
  RETURN_ON_ERROR(EnterModule(mod, &module));
  RETURN_IF(count == nullptr, CUDA_ERROR_INVALID_VALUE);
  *count = static_cast<unsigned>(module->kernel_names().size());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int numFunctions, CUmodule mod) {
  ModulePtr module;
  RETURN_ON_ERROR(EnterModule(mod, &module));
  RETURN_IF(functions == nullptr || numFunctions == 0, CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < numFunctions && i < module->kernel_names().size(); ++i) {
    functions[i] = module->FindFunction(module->kernel_names()[i])->handle;
  }
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
  ModulePtr module;
  RETURN_ON_ERROR(EnterModule(hmod, &module));
  RETURN_IF(name == nullptr || (dptr == nullptr && bytes == nullptr), CUDA_ERROR_INVALID_VALUE);
  uint64_t address = 0, size_bytes = 0;
  // Of a kernel's name as NVIDIA's driver.
  RETURN_IF(module->FindFunction(name) != nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(!module->FindVariable(name, &address, &size_bytes), CUDA_ERROR_NOT_FOUND);
  if (dptr != nullptr) *dptr = address;
  if (bytes != nullptr) *bytes = size_bytes;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(hfunc, &function));
  RETURN_IF(name == nullptr, CUDA_ERROR_INVALID_VALUE);
  *name = function->info().name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(hfunc, &function));
  RETURN_IF(hmod == nullptr, CUDA_ERROR_INVALID_VALUE);
  *hmod = function->module()->handle;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(func, &function));
  return ParameterInfo(function->info(), paramIndex, paramOffset, paramSize);
}

CUresult cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(hfunc, &function));
  RETURN_IF(pi == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(FunctionAttribute(function->info(), function->settings(), attrib, pi));
  if (attrib == CU_FUNC_ATTRIBUTE_BINARY_VERSION) *pi = BinaryVersion(*function);
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(hfunc, &function));
  return SetFunctionAttribute(function->info(), function->settings(), attrib, value);
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(hfunc, &function));
  return config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(hfunc, &function));
  return config >= 0 && config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncLoad(CUfunction hfunc) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(hfunc, &function));
  return PrepareFunction(*function);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction hfunc) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(hfunc, &function));
  RETURN_IF(state == nullptr, CUDA_ERROR_INVALID_VALUE);
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

}  // extern "C"
