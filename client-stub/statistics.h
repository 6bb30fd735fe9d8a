// Counts per function, for people and tests: calls, round trips, bytes each way. On only with TESSERA_STATS.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace tessera {

struct CallInfo;

class Statistics {
 public:
  // `destination`: "1" for stderr, else the path of a file that receives JSON.
  explicit Statistics(std::string destination);

  // Any thread.
  void CountCall(const CallInfo& info) { Of(info).calls.fetch_add(1, std::memory_order_relaxed); }
  void CountSent(const CallInfo& info, size_t bytes) { Of(info).bytes_out.fetch_add(bytes, std::memory_order_relaxed); }
  void CountRoundTrip(const CallInfo& info, size_t bytes_in) {
    Row& row = Of(info);
    row.round_trips.fetch_add(1, std::memory_order_relaxed);
    row.bytes_in.fetch_add(bytes_in, std::memory_order_relaxed);
  }
  // Writes the counts to where they belong. The table goes to stderr, sorted by calls; the file holds one JSON object:
  // {"calls": n, "round_trips": n, "bytes_out": n, "bytes_in": n, "functions": {"cuX": {the same}}}.
  void Write() const;
  std::string ToJson() const;
  std::string ToTable() const;

 private:
  struct Row {
    std::atomic<const char*> name{nullptr};
    std::atomic<uint64_t> calls{0}, round_trips{0}, bytes_out{0}, bytes_in{0};
  };
  static constexpr size_t kRows = 0x2000;  // ids of calls stay below (protocol/spec); others share the last row
  Row& Of(const CallInfo& info);

  const std::string destination_;
  std::unique_ptr<Row[]> rows_;
};

}  // namespace tessera
