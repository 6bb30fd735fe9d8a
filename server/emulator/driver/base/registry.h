// Live objects by handle. Handles are numbers that are never used twice, so a stale or invented handle is always
// recognised; a caller keeps the object alive by the shared_ptr it got, whatever another thread destroys meanwhile.
// Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace tessera::emulator {

enum class HandleKind : uint64_t {
  kContext = 1,
  kStream,
  kEvent,
  kModule,
  kFunction,
  kLibrary,
  kKernel,
  kArray,
  kMipmappedArray,
  kMemoryHandle,
  kPool,
  kGraph,
  kGraphNode,
  kGraphExec,
  kLink,
  kUserObject,
  kTextureObject,
  kGreenContext,
  kResourceDescriptor,
  kCondition,
};

template <typename T>
class Registry {
 public:
  explicit Registry(HandleKind kind) : next_((0x5E00 + static_cast<uint64_t>(kind)) << 32) {}

  // Mints a handle without an object.
  uint64_t Mint() { return next_.fetch_add(16) + 16; }
  void Put(uint64_t handle, std::shared_ptr<T> object) {
    std::unique_lock lock(mutex_);
    objects_[handle] = std::move(object);
  }
  uint64_t Add(std::shared_ptr<T> object) {
    const uint64_t handle = Mint();
    Put(handle, std::move(object));
    return handle;
  }
  // Null when there is no such object.
  std::shared_ptr<T> Find(uint64_t handle) const {
    std::shared_lock lock(mutex_);
    auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  template <typename H>
  std::shared_ptr<T> Find(H* handle) const {
    return Find(reinterpret_cast<uint64_t>(handle));
  }
  // Takes the object out; null when there was none.
  std::shared_ptr<T> Remove(uint64_t handle) {
    std::unique_lock lock(mutex_);
    auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  template <typename H>
  std::shared_ptr<T> Remove(H* handle) {
    return Remove(reinterpret_cast<uint64_t>(handle));
  }
  // Takes out all objects for which `test` holds. The objects are destroyed by the caller, outside the lock.
  std::vector<std::shared_ptr<T>> RemoveIf(const std::function<bool(const T&)>& test) {
    std::vector<std::shared_ptr<T>> removed;
    std::unique_lock lock(mutex_);
    for (auto it = objects_.begin(); it != objects_.end();) {
      if (test(*it->second)) {
        removed.push_back(std::move(it->second));
        it = objects_.erase(it);
      } else {
        ++it;
      }
    }
    return removed;
  }
  std::vector<std::pair<uint64_t, std::shared_ptr<T>>> Entries() const {
    std::shared_lock lock(mutex_);
    return {objects_.begin(), objects_.end()};
  }
  std::vector<std::shared_ptr<T>> All() const {
    std::shared_lock lock(mutex_);
    std::vector<std::shared_ptr<T>> all;
    for (const auto& [handle, object] : objects_) all.push_back(object);
    return all;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<T>> objects_;
  std::atomic<uint64_t> next_;
};

}  // namespace tessera::emulator
