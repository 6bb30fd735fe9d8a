// How the multiprocessors of each device are grouped, as its server has said. Any thread.
#pragma once

#include <cuda.h>

#include <map>
#include <string>

#include "client-stub/process/process_part.h"
#include "protocol/base/mutex.h"

namespace tessera {

class ClusterMaps {
 public:
  static ClusterMaps& Process() { return PartOfProcess<ClusterMaps>::Get(); }

  // One byte per pair of multiprocessors each.
  struct Map {
    std::string order;   // a place within the group
    std::string groups;  // the group's number
  };
  // False: the device was not asked yet.
  bool Find(CUdevice device, Map* map) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = known_.find(device);
    if (found == known_.end()) return false;
    *map = found->second;
    return true;
  }
  void Keep(CUdevice device, const Map& map) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    known_.insert_or_assign(device, map);
  }

 private:
  Mutex mutex_;
  std::map<CUdevice, Map> known_ GUARDED_BY(mutex_);
};

}  // namespace tessera
