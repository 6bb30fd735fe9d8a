// What the application still gets from links in progress (cuLinkCreate). Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client-stub/code/image_load.h"
#include "client-stub/process/process_part.h"
#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

// Where its logs go (buffers given at creation), and the cubin it produced.
struct JitLink {
  ClientJitOptions jit;
  std::vector<std::byte> cubin;
};

class LinkTable {
 public:
  void Insert(HandleId state, std::shared_ptr<JitLink> link) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    links_[state.value()] = std::move(link);
  }
  // Null for a handle that is no link's.
  std::shared_ptr<JitLink> Find(HandleId state) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = links_.find(state.value());
    return found == links_.end() ? nullptr : found->second;
  }
  void Erase(HandleId state) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    links_.erase(state.value());
  }

 private:
  Mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<JitLink>> links_ GUARDED_BY(mutex_);
};

// Of this process.
inline LinkTable& Links() { return PartOfProcess<LinkTable>::Get(); }

}  // namespace tessera
