// The parameter layout of every function and kernel of a session: asked of the driver once, told to the client, and used
// here to rebuild the array of parameter pointers of a launch.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

struct DriverTable;
class Worker;

// Offsets and sizes in bytes, alternating; `bytes` is the end of the last parameter.
struct KernelLayout {
  std::vector<uint32_t> offsets_and_sizes;
  uint32_t bytes = 0;
  // A launch of up to so many threads a block, with up to so many bytes of dynamic shared memory, does not lack resources as long
  // as no attribute of the kernel is changed. 0 threads: nothing is known, or it may lack memory.
  uint32_t max_threads = 0;
  uint32_t max_shared_bytes = 0;
  uint32_t local_bytes = 0;  // local memory of each thread. 0: none, or the driver did not tell
  const char* name = "";     // mangled, as RecentLaunches keeps it

  // Into a reply that describes a kernel, which borrows the layout.
  template <typename Reply>
  void Describe(Reply* reply) const {
    reply->layout.Borrow(offsets_and_sizes);
    reply->max_threads = max_threads;
    reply->max_shared_bytes = max_shared_bytes;
  }
};

// A part of the worker. Any thread.
class LayoutTable {
 public:
  // A kernel has at most this many parameters: 32764 bytes of one byte each.
  static constexpr size_t kParametersMax = 32764;

  explicit LayoutTable(Worker& worker) : worker_(worker) {}

  // The layout of a live function or kernel; asked of the driver on first use. Null with the driver's code in `error`.
  // The pointer stays valid until Drop(), which only happens with the handle.
  const KernelLayout* Find(HandleId function, CUresult* error) {
    // No lock for those that are launched again and again.
    const Recent& recent = recent_[function.slot() % kRecent];
    const uint64_t changes = recent.changes.load(std::memory_order_acquire);
    const bool same = recent.function.load(std::memory_order_acquire) == function.value();
    const KernelLayout* const layout = recent.layout.load(std::memory_order_acquire);
    if (same && changes % 2 == 0 && recent.changes.load(std::memory_order_relaxed) == changes) return layout;
    return FindSlowly(function, error);
  }
  void Drop(HandleId function);
  // The most local memory that a thread of any kernel needs whose layout was asked for.
  uint32_t largest_local_bytes() const { return largest_local_bytes_.load(std::memory_order_relaxed); }

 private:
  // The function of these slots that was asked for last. Written under the mutex; readers take none, and believe what they have
  // read when it did not change meanwhile: `changes` is odd during a change, and never the same again after one.
  struct Recent {
    std::atomic<uint64_t> changes{0};
    std::atomic<uint64_t> function{0};  // 0: none
    std::atomic<const KernelLayout*> layout{nullptr};
  };
  static constexpr size_t kRecent = 1024;

  const KernelLayout* FindSlowly(HandleId function, CUresult* error) EXCLUDES(mutex_);
  void Change(Recent& recent, uint64_t function, const KernelLayout* layout) REQUIRES(mutex_);
  const KernelLayout* Remember(HandleId function, const KernelLayout* layout) REQUIRES(mutex_);

  Worker& worker_;
  std::array<Recent, kRecent> recent_;
  std::atomic<uint32_t> largest_local_bytes_{0};
  Mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<KernelLayout>> layouts_ GUARDED_BY(mutex_);
};

}  // namespace tessera
