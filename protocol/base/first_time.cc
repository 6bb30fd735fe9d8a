#include "protocol/base/first_time.h"

#include <functional>
#include <set>
#include <string>

#include "protocol/base/mutex.h"

namespace tessera {
namespace {

struct Said {
  Mutex mutex;
  std::set<std::string, std::less<>> what GUARDED_BY(mutex);
};

// Never destroyed, as the log: libraries log from exit handlers.
Said& WasSaid() {
  static auto* const said = new Said;
  return *said;
}

}  // namespace

bool FirstTime(std::string_view what) {
  Said& said = WasSaid();
  MutexLock lock(said.mutex);
  if (said.what.contains(what)) return false;
  said.what.emplace(what);
  return true;
}

}  // namespace tessera
