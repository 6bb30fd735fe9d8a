// Counts calls, round trips, bytes each way and time for each function, for people and tests. Only with TESSERA_STATS.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client-stub/process/process_file.h"
#include "client-stub/process/process_part.h"
#include "protocol/base/clock.h"
#include "protocol/base/mutex.h"

namespace tessera {

struct CallInfo;

class Statistics {
 public:
  // `destination`: "1" for stderr, else a file that receives JSON.
  explicit Statistics(ProcessFile destination);

  // The statistics of the process; null unless TESSERA_STATS asks for them.
  static Statistics* OfProcess() { return PartOfProcess<std::unique_ptr<Statistics>>::Get().get(); }

  // Any thread.
  void CountCall(const CallInfo& info) { Of(info).calls.fetch_add(1, std::memory_order_relaxed); }
  void CountSent(const CallInfo& info, size_t bytes) { Of(info).bytes_out.fetch_add(bytes, std::memory_order_relaxed); }
  void CountRoundTrip(const CallInfo& info, size_t bytes_in) {
    Row& row = Of(info);
    row.round_trips.fetch_add(1, std::memory_order_relaxed);
    row.bytes_in.fetch_add(bytes_in, std::memory_order_relaxed);
  }
  // How long a caller was kept, to hand over a record or to wait for a reply.
  void CountWait(const CallInfo& info, uint64_t ns) { Of(info).waited_ns.fetch_add(ns, std::memory_order_relaxed); }
  // Regions of interest: calls between cuProfilerStart and cuProfilerStop are also counted separately. A start within a region is
  // ignored, and so is a stop outside. Calls of all threads count. Regions beyond kRegionsMax are not kept.
  static constexpr size_t kRegionsMax = 10'000;
  void BeginRegion() EXCLUDES(mutex_);
  void EndRegion() EXCLUDES(mutex_);
  // Writes the counts to the destination. The table goes to stderr, sorted by calls; the file holds one JSON object: {"calls": n,
  // "round_trips": n, "bytes_out": n, "bytes_in": n, "waited_ns": n, "functions": {"cuX": {the same}}, "regions": [{the same
  // without regions} ...]}.
  void Write() const;
  std::string ToJson() const EXCLUDES(mutex_);
  std::string ToTable() const;

 private:
  struct Counts {
    const char* name = nullptr;
    uint64_t calls = 0, round_trips = 0, bytes_out = 0, bytes_in = 0, waited_ns = 0;
    Counts& operator+=(const Counts& other);
    Counts& operator-=(const Counts& other);
  };
  // One entry for each row; unused rows have no name.
  using Snapshot = std::vector<Counts>;
  Snapshot TakeSnapshot() const;
  static Counts Total(const Snapshot& snapshot);
  static std::string NumbersJson(const Counts& counts);
  static std::string BodyJson(const Snapshot& snapshot);

  struct Row {
    std::atomic<const char*> name{nullptr};
    std::atomic<uint64_t> calls{0}, round_trips{0}, bytes_out{0}, bytes_in{0}, waited_ns{0};
  };
  static constexpr size_t kRows = 0x2000;  // ids of calls stay below (protocol/spec); others share the last row
  Row& Of(const CallInfo& info);

  const ProcessFile destination_;
  std::unique_ptr<Row[]> rows_;
  mutable Mutex mutex_;
  bool in_region_ GUARDED_BY(mutex_) = false;
  Snapshot region_start_ GUARDED_BY(mutex_);
  std::vector<std::string> regions_ GUARDED_BY(mutex_);
};

// Counts how long its scope takes as a wait of one call; `statistics` may be null.
class WaitCounter {
 public:
  WaitCounter(Statistics* statistics, const CallInfo& info)
      : statistics_(statistics), info_(info), begun_ns_(statistics != nullptr ? MonotonicNs() : 0) {}
  ~WaitCounter() {
    if (statistics_ != nullptr) statistics_->CountWait(info_, MonotonicNs() - begun_ns_);
  }
  WaitCounter(const WaitCounter&) = delete;
  WaitCounter& operator=(const WaitCounter&) = delete;

 private:
  Statistics* const statistics_;
  const CallInfo& info_;
  const uint64_t begun_ns_;
};

}  // namespace tessera
