// The functions of NVML that are not served.
#include "client-stub/nvml/library.h"
#include "client-stub/nvml/nvml_abi.h"

#define DEVICE(function) \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle) { return tessera::nvml::NotSupported(handle); }
#define SYSTEM(function) \
  NVML_EXPORT nvmlReturn_t function() { return tessera::nvml::NotSupported(); }
#include "client-stub/nvml/unsupported.def"
