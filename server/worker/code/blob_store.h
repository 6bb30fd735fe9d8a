// Large arguments on their way in, large results on their way out: bytes that do not fit one record.
//
// A client writes a blob in pieces (tesseraBlobWrite), in order, and names it in the call that uses it. One that the server may
// have already is named by its key first (tesseraBlobName) and written only if it is missing. A result is put here by the worker,
// read by the client in pieces (tesseraBlobRead) and released (tesseraBlobRelease).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/image/image_key.h"
#include "server/images/image_file.h"

namespace tessera {

class ImageCache;  // server/images/image_cache.h
class Worker;

// The bytes of a blob, with a zero behind them: data()[size()] is 0.
class BlobBytes {
 public:
  explicit BlobBytes(std::vector<std::byte> bytes);
  explicit BlobBytes(ImageFile file) : file_(std::move(file)) {}
  std::span<const std::byte> bytes() const { return file_ ? file_->bytes() : std::span(bytes_).first(bytes_.size() - 1); }
  const std::byte* data() const { return bytes().data(); }
  size_t size() const { return bytes().size(); }

 private:
  std::vector<std::byte> bytes_;
  std::optional<ImageFile> file_;
};

class BlobStore {
 public:
  // All blobs of a session that nobody has taken yet: two of the largest image that is forwarded (2 GiB).
  static constexpr uint64_t kBytesMax = uint64_t{4} << 30;
  static constexpr size_t kBlobsMax = 8192;  // one wrapper has at most 4096 members

  using Bytes = std::shared_ptr<const BlobBytes>;

  explicit BlobStore(Worker& worker);

  // Names a blob that is not there yet, and is written only if it is missing. False when it cannot be: a protocol violation.
  bool Name(uint64_t blob, uint64_t total_bytes, const ImageKey& key);
  // Appends a piece. False when it does not continue the blob or a bound would be exceeded: a protocol violation. When there is
  // no memory for it the blob is lost, which is for its user to hear: pieces are sent without a wait for an answer.
  bool Write(uint64_t blob, uint64_t offset, uint64_t total_bytes, std::span<const std::byte> data);
  // Removes a complete blob and hands it over. kResourceExhausted when there was no memory for it, kNotFound when there is none
  // or it is not complete: a protocol violation.
  Result<Bytes> Take(uint64_t blob);
  // Looks for the blobs among these that were named and not written. True: Take() will find all of them. May wait for a disk:
  // helper threads. The caller alone uses these blobs meanwhile.
  bool Fetch(std::span<const uint64_t> blobs);
  // Whether images that are missing now may be there another time.
  bool has_cache() const { return cache_ != nullptr; }

  // A result for the client to read; returns its number. Numbers of results have the top bit set.
  uint64_t Put(std::vector<std::byte> bytes);
  // A part of a result; false when it is out of range or larger than a reply may be.
  bool Read(uint64_t blob, uint64_t offset, uint64_t length, std::vector<std::byte>* out) const;
  void Release(uint64_t blob);

 private:
  struct Entry {
    uint64_t total_bytes;
    std::vector<std::byte> bytes;  // as far as it has come; of one without a name
    std::optional<ImageKey> key;
    std::optional<ImageReceiver> receiver;  // as far as it has come; of one with a name
    Bytes found;                            // in the cache
    bool lost = false;                      // there was no memory for it
  };
  bool Complete(const Entry& entry) const;
  // False: no memory.
  static bool Append(Entry& entry, std::span<const std::byte> data);

  ImageCache* const cache_;
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, Entry> blobs_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;  // sum of total_bytes
  uint64_t next_result_ GUARDED_BY(mutex_) = uint64_t{1} << 63;
};

}  // namespace tessera
