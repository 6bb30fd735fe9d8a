#include "server/worker/code/blob_store.h"

#include <new>
#include <utility>

#include "protocol/base/log.h"
#include "server/images/image_cache.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

constexpr uint64_t kReadBytesMax = 128 << 10;  // fits a reply record with room to spare

}  // namespace

BlobBytes::BlobBytes(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) { bytes_.push_back(std::byte{0}); }

BlobStore::BlobStore(Worker& worker) : cache_(worker.options().images) {}

bool BlobStore::Complete(const Entry& entry) const {
  if (entry.found != nullptr) return true;
  return (entry.receiver ? entry.receiver->received() : entry.bytes.size()) == entry.total_bytes;
}

bool BlobStore::Name(uint64_t blob, uint64_t total_bytes, const ImageKey& key) {
  MutexLock lock(mutex_);
  if (blobs_.contains(blob) || blobs_.size() >= kBlobsMax || total_bytes == 0 || total_bytes > kBytesMax - bytes_) return false;
  blobs_[blob] = Entry{.total_bytes = total_bytes, .bytes = {}, .key = key, .receiver = {}, .found = nullptr};
  bytes_ += total_bytes;
  return true;
}

bool BlobStore::Write(uint64_t blob, uint64_t offset, uint64_t total_bytes, std::span<const std::byte> data) {
  MutexLock lock(mutex_);
  auto found = blobs_.find(blob);
  if (found == blobs_.end()) {
    if (offset != 0 || blobs_.size() >= kBlobsMax || total_bytes > kBytesMax - bytes_) return false;
    found =
        blobs_.emplace(blob, Entry{.total_bytes = total_bytes, .bytes = {}, .key = {}, .receiver = {}, .found = nullptr}).first;
    bytes_ += total_bytes;
  }
  Entry& entry = found->second;
  if (entry.total_bytes != total_bytes) return false;
  // Another part of the same image was missing: then the client sends all of them, and this one is here already.
  if (entry.found != nullptr || entry.lost) return true;
  // One that is to be kept goes where others can be given it.
  if (entry.key && cache_ != nullptr && !entry.receiver && offset == 0 && entry.bytes.empty()) {
    if (Result<ImageReceiver> receiver = ImageReceiver::Make(total_bytes); receiver.ok()) {
      entry.receiver.emplace(std::move(receiver).value());
    }
  }
  const uint64_t received = entry.receiver ? entry.receiver->received() : entry.bytes.size();
  if (received != offset || data.size() > total_bytes - received) return false;
  if (Append(entry, data)) return true;
  LogWarning("there is no memory for an image of {} bytes", total_bytes);
  entry.lost = true;
  entry.receiver.reset();
  entry.bytes = {};
  return true;
}

bool BlobStore::Append(Entry& entry, std::span<const std::byte> data) {
  if (entry.receiver) return entry.receiver->Append(data);
  try {
    entry.bytes.reserve(entry.total_bytes + 1);  // BlobBytes adds a zero
    entry.bytes.insert(entry.bytes.end(), data.begin(), data.end());
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

Result<BlobStore::Bytes> BlobStore::Take(uint64_t blob) {
  const Status exhausted(StatusCode::kResourceExhausted, "there was no memory for an image");
  Entry entry;
  {
    MutexLock lock(mutex_);
    const auto found = blobs_.find(blob);
    if (found == blobs_.end() || (!found->second.lost && !Complete(found->second))) {
      return Status(StatusCode::kNotFound, "a blob that has not been sent");
    }
    entry = std::move(found->second);
    bytes_ -= entry.total_bytes;
    blobs_.erase(found);
  }
  if (entry.lost) return exhausted;
  if (entry.found != nullptr) return entry.found;
  if (!entry.receiver) return Bytes(std::make_shared<BlobBytes>(std::move(entry.bytes)));
  Result<ImageFile> file = entry.receiver->Seal();
  if (!file.ok()) {
    LogError("an image cannot be read: {}", file.status().message());
    return exhausted;
  }
  cache_->Offer(*entry.key, entry.total_bytes, entry.receiver->file());
  return Bytes(std::make_shared<BlobBytes>(std::move(file).value()));
}

bool BlobStore::Fetch(std::span<const uint64_t> blobs) {
  bool all = true;
  for (const uint64_t blob : blobs) {
    std::pair<ImageKey, uint64_t> wanted;
    {
      MutexLock lock(mutex_);
      const auto found = blobs_.find(blob);
      // What was neither named nor written, or is lost, is for Take() to notice.
      if (found == blobs_.end() || !found->second.key || found->second.lost || Complete(found->second)) continue;
      wanted = {*found->second.key, found->second.total_bytes};
    }
    Result<UniqueFd> file =
        cache_ != nullptr ? cache_->Find(wanted.first, wanted.second) : Status(StatusCode::kNotFound, "no images are kept");
    Result<ImageFile> image = file.ok() ? ImageFile::Map(file->get(), wanted.second) : file.status();
    if (!image.ok()) {
      all = false;
      continue;
    }
    MutexLock lock(mutex_);
    if (const auto found = blobs_.find(blob); found != blobs_.end()) {
      found->second.found = std::make_shared<BlobBytes>(std::move(image).value());
    }
  }
  return all;
}

uint64_t BlobStore::Put(std::vector<std::byte> bytes) {
  MutexLock lock(mutex_);
  const uint64_t blob = next_result_++;
  const uint64_t total_bytes = bytes.size();
  blobs_.emplace(blob, Entry{.total_bytes = total_bytes, .bytes = std::move(bytes), .key = {}, .receiver = {}, .found = nullptr});
  bytes_ += total_bytes;
  return blob;
}

bool BlobStore::Read(uint64_t blob, uint64_t offset, uint64_t length, std::vector<std::byte>* out) const {
  MutexLock lock(mutex_);
  const auto found = blobs_.find(blob);
  if (found == blobs_.end() || length > kReadBytesMax) return false;
  const std::vector<std::byte>& bytes = found->second.bytes;
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
