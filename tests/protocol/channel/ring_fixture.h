// A ring in ordinary memory, and records whose content tells their number.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "protocol/channel/ring.h"

namespace tessera {

struct FreeAligned {
  void operator()(std::byte* memory) const { std::free(memory); }
};

class RingInMemory {
 public:
  explicit RingInMemory(uint32_t size_bytes)
      : block_(static_cast<std::byte*>(std::aligned_alloc(4096, RingMemory::TotalBytes(size_bytes)))) {
    std::memset(block_.get(), 0, RingMemory::TotalBytes(size_bytes));
    memory = RingMemory::At(block_.get(), size_bytes);
  }
  RingMemory memory;

 private:
  std::unique_ptr<std::byte, FreeAligned> block_;
};

// The records of a test: sizes and contents follow from the number, so that the reader checks every byte it gets.
inline size_t TestRecordSize(uint64_t number, size_t size_max) {
  const uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15;
  // Mostly small ones, now and then one of any size.
  const size_t range = mixed % 16 == 0 ? size_max - kRingRecordBytesMin : 128;
  return kRingRecordBytesMin + (mixed >> 32) % (range + 1);
}

inline void FillTestRecord(uint64_t number, std::span<std::byte> record) {
  for (size_t at = 8; at < record.size(); at += 8) {
    const uint64_t word = number + at;
    std::memcpy(record.data() + at, &word, std::min<size_t>(8, record.size() - at));
  }
  const uint32_t id = 1;
  std::memcpy(record.data() + 4, &id, sizeof(id));
}

inline bool IsTestRecord(uint64_t number, std::span<const std::byte> record, size_t size_max) {
  const size_t size = TestRecordSize(number, size_max);
  if (record.size() != (size + 7) / 8 * 8) return false;
  std::vector<std::byte> expected(size);
  FillTestRecord(number, expected);
  expected.resize(record.size());
  const auto size_bytes = static_cast<uint32_t>(record.size());
  std::memcpy(expected.data(), &size_bytes, sizeof(size_bytes));
  return std::memcmp(expected.data(), record.data(), record.size()) == 0;
}

// Appends test records 0 to count-1, waiting for space. Returns how it ended.
inline Status ProduceTestRecords(RingProducer& out, uint64_t count, const StopPredicate& stop) {
  std::vector<std::byte> record;
  for (uint64_t number = 0; number < count; ++number) {
    record.resize(TestRecordSize(number, out.record_bytes_max()));
    FillTestRecord(number, record);
    while (!out.TryAppend(record)) RETURN_IF_ERROR(out.WaitForSpace(record.size(), kNoDeadline, stop));
  }
  return Status::Ok();
}

// Takes and checks `count` records. kInternal when one is wrong.
inline Status ConsumeTestRecords(RingConsumer& in, uint64_t count, size_t size_max, const StopPredicate& stop) {
  RecordBuffer buffer;
  for (uint64_t number = 0; number < count;) {
    const std::span<const std::byte> record = in.CopyOut(&buffer);
    if (record.empty()) {
      RETURN_IF_ERROR(in.Wait(kNoDeadline, stop));
      continue;
    }
    if (!IsTestRecord(number, record, size_max)) {
      return Status(StatusCode::kInternal, "record " + std::to_string(number) + " is wrong");
    }
    ++number;
  }
  return Status::Ok();
}

}  // namespace tessera
