// One lazily constructed object per type, owned by a Worker: how a domain keeps its state without worker.h knowing it.
//
// Any thread may call Get(); the first one constructs, the others wait for it. A part's constructor may Get() other parts
// (they are then constructed before it and destroyed after it), not itself.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "protocol/base/check.h"

namespace tessera {

class Worker;

class PartRegistry {
 public:
  static constexpr int kPartsMax = 64;  // types of parts in the program; a domain needs one or two

  PartRegistry() = default;
  ~PartRegistry() { Clear(); }
  PartRegistry(const PartRegistry&) = delete;
  PartRegistry& operator=(const PartRegistry&) = delete;

  template <typename T>
  T& Get(Worker& worker) {
    static const int index = NextIndex();
    CHECK(index < kPartsMax);
    if (void* part = parts_[index].load(std::memory_order_acquire)) return *static_cast<T*>(part);
    std::lock_guard lock(mutex_);
    if (void* part = parts_[index].load(std::memory_order_acquire)) return *static_cast<T*>(part);
    T* part = new T(worker);
    owned_.push_back(Owned(part, [](void* object) { delete static_cast<T*>(object); }));
    parts_[index].store(part, std::memory_order_release);
    return *part;
  }

  // Destroys all parts, the youngest first. Only when no other thread uses them.
  void Clear() {
    while (!owned_.empty()) owned_.pop_back();
    for (auto& part : parts_) part.store(nullptr, std::memory_order_relaxed);
  }

 private:
  using Owned = std::unique_ptr<void, void (*)(void*)>;
  static int NextIndex() {
    static std::atomic<int> next{0};
    return next.fetch_add(1, std::memory_order_relaxed);
  }

  std::recursive_mutex mutex_;  // recursive: a part's constructor may ask for other parts
  std::array<std::atomic<void*>, kPartsMax> parts_{};
  std::vector<Owned> owned_;
};

}  // namespace tessera
