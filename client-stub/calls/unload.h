// Unloading a module or a library: its functions and variables end with it, on both sides.
#pragma once

#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/code/function_info.h"
#include "client-stub/managed/managed_memory.h"
#include "client-stub/memory/client_memory.h"

namespace tessera {

// Sends an unload request that names the functions known of `container`, and forgets them and its variables when it
// succeeded. The pages of its managed variables go before.
template <typename Request>
CUresult UnloadContainer(Call& call, Request& request, HandleId container) {
  ClientMemory& memory = call.session().memory();
  ManagedMemory::Of(call.session()).RemoveVariables(container);
  std::vector<uint64_t> functions;
  for (HandleId function : Functions().OfContainer(container)) functions.push_back(function.value());
  request.functions.Borrow(functions);
  const CUresult result = call.Sync(request);
  if (result != CUDA_SUCCESS) return result;
  memory.device().RemoveContainer(container);  // their addresses stay reserved: the driver will give them again
  for (HandleId function : Functions().EraseContainer(container)) call.Release(function);
  return CUDA_SUCCESS;
}

}  // namespace tessera
