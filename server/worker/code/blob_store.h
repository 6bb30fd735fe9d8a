// Large arguments on their way in, large results on their way out: bytes that do not fit one record.
//
// A client writes a blob in pieces (tesseraBlobWrite), in order, and names it in the call that uses it. A result is put
// here by the worker, read by the client in pieces (tesseraBlobRead) and released (tesseraBlobRelease).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "protocol/base/mutex.h"

namespace tessera {

class Worker;

class BlobStore {
 public:
  // All blobs of a session that nobody has taken yet: two of the largest image that is forwarded (2 GiB).
  static constexpr uint64_t kBytesMax = uint64_t{4} << 30;
  static constexpr size_t kBlobsMax = 8192;  // one wrapper has at most 4096 members

  using Bytes = std::shared_ptr<std::vector<std::byte>>;

  explicit BlobStore(Worker&) {}

  // Appends a piece. False when it does not continue the blob or a bound would be exceeded: a protocol violation.
  bool Write(uint64_t blob, uint64_t offset, uint64_t total_bytes, std::span<const std::byte> data);
  // Removes a complete blob and hands it over; null when there is none or it is not complete.
  Bytes Take(uint64_t blob);
  // A result for the client to read; returns its number. Numbers of results have the top bit set.
  uint64_t Put(std::vector<std::byte> bytes);
  // A part of a result; false when it is out of range or larger than a reply may be.
  bool Read(uint64_t blob, uint64_t offset, uint64_t length, std::vector<std::byte>* out) const;
  void Release(uint64_t blob);

 private:
  struct Entry {
    Bytes bytes;
    uint64_t total_bytes;
  };
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, Entry> blobs_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;  // sum of total_bytes
  uint64_t next_result_ GUARDED_BY(mutex_) = uint64_t{1} << 63;
};

}  // namespace tessera
