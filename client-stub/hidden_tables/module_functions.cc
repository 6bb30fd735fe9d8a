// Table 6E163FBE: lists the kernels of a module. cuFFT finds its kernels with it.

#include <cuda.h>

#include <vector>

#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/hidden_tables/table.h"
#include "generated/client/module.h"

namespace tessera {
namespace {

struct ModuleFunctionsTag {
  static constexpr const char* kName = "6E163FBE";
  static constexpr size_t kWords = 99;
};

// Slot 7: calls `visit` for each kernel and returns how many there are; 0: there are none, or the module cannot be read.
unsigned VisitFunctions(CUcontext, CUmodule module, void (*visit)(void* user, CUfunction function), void* user) {
  unsigned count = 0;
  if (visit == nullptr || Enter_cuModuleGetFunctionCount(false, &count, module) != CUDA_SUCCESS) return 0;
  std::vector<CUfunction> functions(count);
  if (count == 0 || Enter_cuModuleEnumerateFunctions(false, functions.data(), count, module) != CUDA_SUCCESS) return 0;
  for (const CUfunction function : functions) visit(user, function);
  return count;
}

}  // namespace

const void* ModuleFunctions() {
  static HiddenTable<ModuleFunctionsTag> table;
  static const void* const filled = &table.Set(7, &VisitFunctions);
  return filled;
}

}  // namespace tessera
