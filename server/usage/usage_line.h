// Between the broker, which counts, and the keeper of usage records: one datagram of a SEQPACKET pair is one message.
//
//   broker                      keeper
//   UsageBatch               ->           once a second, while vGPUs have sessions
//   UsageQuery               ->
//                            <-           UsageAnswer, in several parts where it is long
//
// Decode() copies everything out of the bytes it reads and bounds it; kProtocolViolation for what is no such message. Plain
// structs, used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/memory_kind.h"

namespace tessera {

inline constexpr size_t kUsageMessageBytesMax = 128 * 1024;
inline constexpr size_t kUsageRowsMax = 10'000;  // of an answer, all parts together

enum class UsageWord : uint32_t { kNone = 0, kBatch = 1, kQuery = 2, kAnswer = 101 };
// What a message is; kNone for one that is none.
UsageWord UsageWordOf(std::span<const std::byte> message);

// What one vGPU used, within one second or more.
struct UsageSums {
  uint64_t busy_us = 0, wait_us = 0, active_us = 0;
  uint64_t memory_peak_bytes = 0;
  uint64_t launches = 0;               // of kernels and graphs
  MemoryByKind memory_peak_by_kind{};  // of memory_peak_bytes: what those were taken for. Zeros: it was not recorded

  // Times and counts are added. Of the two peaks the larger stays, with its kinds.
  void Add(const UsageSums& more);
  friend bool operator==(const UsageSums&, const UsageSums&) = default;
};

struct UsageBatch {
  static constexpr size_t kOwnersBytesMax = 24 * 1024;
  struct Record {
    std::string name;
    std::string gpu;     // UUID
    std::string owners;  // who may see it, as VgpuMetrics::owners
    UsageSums sums;
    size_t bytes() const {
      return 64 + sizeof(MemoryByKind) + name.size() + gpu.size() + owners.size();
    }  // it takes so much of a message at most
    friend bool operator==(const Record&, const Record&) = default;
  };
  int64_t second = 0;  // since 1970
  std::vector<Record> records;

  void Encode(Encoder& out) const;
  static Result<UsageBatch> Decode(std::span<const std::byte> message);
};

struct UsageQuery {
  uint64_t id = 0;
  std::string name;              // of a vGPU; empty: all
  int64_t since = 0, until = 0;  // seconds since 1970; `until` is not in it
  uint32_t bucket_s = 0;         // sums of so many seconds each; 0: of all of them
  std::string holder;            // who asks
  bool sees_all = false;         // an administrator
  void Encode(Encoder& out) const;
  static Result<UsageQuery> Decode(std::span<const std::byte> message);
};

struct UsageAnswer {
  struct Row {
    std::string name;
    std::string gpu;
    int64_t begin = 0;     // of the bucket, or of the range
    uint64_t seconds = 0;  // of which there are records: the vGPU had sessions then
    UsageSums sums;
    friend bool operator==(const Row&, const Row&) = default;
  };
  static constexpr size_t kRowsAtOnce = 256;
  uint64_t id = 0;
  StatusCode code = StatusCode::kOk;
  std::string sentence;  // empty when the code is kOk
  std::vector<Row> rows;
  bool goes_on = false;  // there is another part

  void Encode(Encoder& out) const;
  static Result<UsageAnswer> Decode(std::span<const std::byte> message);
};

}  // namespace tessera
