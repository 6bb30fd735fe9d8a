// The texture and surface references that were asked of each module: they end with it, and their handles must.
#pragma once

#include <map>
#include <set>

#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

// Any thread.
class ModuleReferences {
 public:
  void Note(HandleId module, HandleId reference) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    of_module_[module].insert(reference);
  }
  // The references of a module that was unloaded, which are forgotten.
  std::set<HandleId> Take(HandleId module) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    auto found = of_module_.extract(module);
    return found.empty() ? std::set<HandleId>() : std::move(found.mapped());
  }

 private:
  Mutex mutex_;
  std::map<HandleId, std::set<HandleId>> of_module_ GUARDED_BY(mutex_);
};

}  // namespace tessera
