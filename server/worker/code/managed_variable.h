// Variables that are declared __managed__: the client has pages of its own for them.
#pragma once

#include <cuda.h>

#include "generated/driver_table.h"

namespace tessera {

// Whether the variable at `address`, of a module or library of the current context, is managed memory to the driver.
// Source: CUDA Driver API, CU_POINTER_ATTRIBUTE_IS_MANAGED.
inline bool IsManagedVariable(const DriverTable& driver, CUdeviceptr address) {
  unsigned managed = 0;
  return driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == CUDA_SUCCESS && managed != 0;
}

}  // namespace tessera
