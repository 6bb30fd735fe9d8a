// The kernels that a session launched last, for the line in the log when a context of it fails: the driver says neither
// which kernel failed nor where.
//
// Notes cost a few stores; two threads that note at once may mix two entries up. Any thread.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "protocol/base/mutex.h"

namespace tessera {

struct RecordHeader;

class RecentLaunches {
 public:
  static constexpr size_t kKept = 8;

  // Keeps the name of a kernel for as long as the session lasts; the same one for equal names.
  const char* Keep(const char* name) EXCLUDES(mutex_);
  // A kernel is about to be launched. `name`: as kept. Numbers as in cuLaunchKernel.
  template <typename Request>
  void Note(const char* name, const Request& launch) {
    Entry& entry = entries_[noted_.fetch_add(1, std::memory_order_relaxed) % kKept];
    entry.name.store(name, std::memory_order_release);
    const uint32_t numbers[] = {launch.grid_x,  launch.grid_y,  launch.grid_z,      launch.block_x,
                                launch.block_y, launch.block_z, launch.shared_bytes};
    for (size_t i = 0; i < entry.numbers.size(); ++i) entry.numbers[i].store(numbers[i], std::memory_order_relaxed);
  }
  // The call of `record` was answered with a sticky error: logs it with these launches, once in a session.
  void LogFailure(const RecordHeader& record, CUresult error);

 private:
  struct Entry {
    std::atomic<const char*> name{""};
    std::array<std::atomic<uint32_t>, 7> numbers{};  // grid, block, bytes of dynamic shared memory
  };
  std::string Describe() const;

  std::atomic<uint64_t> noted_{0};
  std::array<Entry, kKept> entries_;
  std::atomic<bool> logged_{false};
  Mutex mutex_;
  std::set<std::string> names_ GUARDED_BY(mutex_);
};

}  // namespace tessera
