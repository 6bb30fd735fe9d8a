#include "server/worker/code/blob_store.h"

namespace tessera {
namespace {

constexpr uint64_t kReadBytesMax = 128 << 10;  // fits a reply record with room to spare

}  // namespace

bool BlobStore::Write(uint64_t blob, uint64_t offset, uint64_t total_bytes, std::span<const std::byte> data) {
  MutexLock lock(mutex_);
  auto found = blobs_.find(blob);
  if (found == blobs_.end()) {
    if (offset != 0 || blobs_.size() >= kBlobsMax || total_bytes > kBytesMax - bytes_) return false;
    found = blobs_.emplace(blob, Entry{std::make_shared<std::vector<std::byte>>(), total_bytes}).first;
    bytes_ += total_bytes;
  }
  Entry& entry = found->second;
  if (entry.total_bytes != total_bytes || entry.bytes->size() != offset ||
      data.size() > total_bytes - entry.bytes->size()) {
    return false;
  }
  entry.bytes->reserve(total_bytes);
  entry.bytes->insert(entry.bytes->end(), data.begin(), data.end());
  return true;
}

BlobStore::Bytes BlobStore::Take(uint64_t blob) {
  MutexLock lock(mutex_);
  const auto found = blobs_.find(blob);
  if (found == blobs_.end() || found->second.bytes->size() != found->second.total_bytes) return nullptr;
  Bytes bytes = std::move(found->second.bytes);
  bytes_ -= found->second.total_bytes;
  blobs_.erase(found);
  return bytes;
}

uint64_t BlobStore::Put(std::vector<std::byte> bytes) {
  MutexLock lock(mutex_);
  const uint64_t blob = next_result_++;
  const uint64_t total_bytes = bytes.size();
  blobs_.emplace(blob, Entry{std::make_shared<std::vector<std::byte>>(std::move(bytes)), total_bytes});
  bytes_ += total_bytes;
  return blob;
}

bool BlobStore::Read(uint64_t blob, uint64_t offset, uint64_t length, std::vector<std::byte>* out) const {
  MutexLock lock(mutex_);
  const auto found = blobs_.find(blob);
  if (found == blobs_.end() || length > kReadBytesMax) return false;
  const std::vector<std::byte>& bytes = *found->second.bytes;
  if (offset > bytes.size() || length > bytes.size() - offset) return false;
  out->assign(bytes.begin() + static_cast<ptrdiff_t>(offset), bytes.begin() + static_cast<ptrdiff_t>(offset + length));
  return true;
}

void BlobStore::Release(uint64_t blob) {
  MutexLock lock(mutex_);
  const auto found = blobs_.find(blob);
  if (found == blobs_.end()) return;
  bytes_ -= found->second.total_bytes;
  blobs_.erase(found);
}

}  // namespace tessera
