// How the multiprocessors of each device are grouped. The server's driver told it. Any thread.
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

  // Each text has one byte for each pair of multiprocessors.
  struct Map {
    std::string order;   // a place within the group
    std::string groups;  // the group's number
  };
  // False: the server was not asked about the device yet.
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
