// Device pointers of registered host memory. The memory is private to this process, so a kernel gets a mirror of it: pinned
// memory of the same size, at its own address (the device attribute that promises equal addresses is filtered to 0).
//
// A mirror is made when a program asks for the device pointer, not before. From then on the two are reconciled wherever a
// stream meets this process, in stream order: before and after every launch of a kernel or graph, around host functions and
// the library's own visits, and when a call that waits for work returns. Bytes that differ from what both had at the last
// meeting were changed by one side and are copied to the other; of a byte that both changed, which is a race natively, the
// device's value stays. So a kernel sees what was written before it started and the program sees what a kernel wrote when
// anything that follows the kernel sees it. What one side writes while a kernel runs the other does not see: a kernel that
// polls registered memory is not supported, nor is cuStreamWaitValue on it.
//
// Cost, while there are mirrors: three times the memory, and per launch two visits of the host (some 20 us) and two passes
// over all mirrors (a third of a second per GiB). Memory of cuMemHostAlloc has none of that. Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "client-stub/call.h"
#include "client-stub/shadow_pool.h"
#include "protocol/base/mutex.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

// Copies what changed since `last` was the content of both. `last` becomes what both are now, unless somebody goes on writing.
void Reconcile(std::byte* host, std::byte* device, std::byte* last, size_t bytes);

class HostMirrors {
 public:
  explicit HostMirrors(ShadowPool& pool) : pool_(pool) {}

  bool any() const { return count_.load(std::memory_order_acquire) != 0; }
  // The device address of `address`, which lies in the registered `range`; makes the mirror if there is none.
  CUresult Open(Call& call, const Range& range, uint64_t address, CUdeviceptr* device) EXCLUDES(mutex_);
  // The memory is being unregistered and no work uses it: reconciles once more.
  void Close(uint64_t base) EXCLUDES(mutex_);
  void EndContext(HandleId context) EXCLUDES(mutex_);

  // Nothing for an address that has no mirror, or is in none.
  std::optional<uint64_t> DeviceAddress(uint64_t host) const EXCLUDES(mutex_);
  std::optional<uint64_t> HostAddress(uint64_t device) const EXCLUDES(mutex_);

  // All of them, now. The application's memory is touched with the mirror's mutex held, which nothing else waits for.
  void ReconcileAll() EXCLUDES(mutex_);

 private:
  struct Mirror {
    Range host;
    uint64_t device = 0;  // of host.base: at the same place in its page
    Shadow shadow;
    Mutex mutex;
    std::vector<std::byte> last GUARDED_BY(mutex);
  };
  std::shared_ptr<Mirror> Take(uint64_t base) EXCLUDES(mutex_);
  static void ReconcileOne(Mirror& mirror);

  ShadowPool& pool_;
  std::atomic<size_t> count_{0};
  mutable Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Mirror>> mirrors_ GUARDED_BY(mutex_);  // by base of the registration
};

// Enqueues a meeting: for calls that give a stream work which may use mirrors. Nothing to do without mirrors, nor while the
// stream is captured (launches of the graph meet).
CUresult MeetMirrors(Call& call, HandleId stream);

}  // namespace tessera
