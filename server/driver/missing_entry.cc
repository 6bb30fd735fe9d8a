#include "server/driver/missing_entry.h"

#include "protocol/base/first_time.h"
#include "protocol/base/log.h"

namespace tessera {

CUresult MissingEntry(const char* name) {
  if (FirstTime(fmt::format("the driver has no {}", name))) {
    LogWarning("the driver has no {}: calls of it end with not supported", name);
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace tessera
