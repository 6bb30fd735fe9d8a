// Unloading a module or a library: its functions end with it, on both sides.
#pragma once

#include <vector>

#include "client-stub/call.h"
#include "client-stub/function_info.h"

namespace tessera {

// Sends an unload request that names the functions known of `container`, and forgets them when it succeeded.
template <typename Request>
CUresult UnloadContainer(Call& call, Request& request, HandleId container) {
  std::vector<uint64_t> functions;
  for (HandleId function : Functions().OfContainer(container)) functions.push_back(function.value());
  request.functions.Borrow(functions);
  const CUresult result = call.Sync(request);
  if (result == CUDA_SUCCESS) {
    for (HandleId function : Functions().EraseContainer(container)) call.Release(function);
  }
  return result;
}

}  // namespace tessera
