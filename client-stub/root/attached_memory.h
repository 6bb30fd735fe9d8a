// Keeps the memory objects of all sessions (AttachSession) as long as the process lives. Sessions are never destroyed, so neither
// are these. Tests do destroy sessions, and leave their objects here: threads of those may still be running.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "client-stub/managed/managed_memory.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/process/process_part.h"
#include "protocol/base/mutex.h"

namespace tessera {

class AttachedMemory {
 public:
  static AttachedMemory& Process() { return PartOfProcess<AttachedMemory>::Get(); }

  // Keeps the two objects of one session. Any thread.
  void Keep(std::unique_ptr<ClientMemory> memory, std::unique_ptr<ManagedMemory> managed) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    kept_.emplace_back(std::move(memory), std::move(managed));
  }

 private:
  Mutex mutex_;
  std::vector<std::pair<std::unique_ptr<ClientMemory>, std::unique_ptr<ManagedMemory>>> kept_ GUARDED_BY(mutex_);
};

}  // namespace tessera
