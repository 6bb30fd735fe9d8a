#include "server/driver/missing_entry.h"

#include <set>
#include <string_view>

#include "protocol/base/log.h"
#include "protocol/base/mutex.h"

namespace tessera {

CUresult MissingEntry(const char* name) {
  static Mutex mutex;
  static std::set<std::string_view>* logged = new std::set<std::string_view>();
  MutexLock lock(mutex);
  if (logged->insert(name).second) LogWarning("the driver has no {}: calls of it end with not supported", name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace tessera
