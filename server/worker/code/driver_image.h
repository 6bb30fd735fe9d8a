// An image as the driver takes it, rebuilt from the bytes that travelled; and the images a session has loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"
#include "server/worker/code/blob_store.h"
#include "server/worker/code/jit_options.h"

namespace tessera {

// Owns the bytes and, for the wrapped forms (client-stub/code/image.h describes them), a wrapper that points to them. The
// driver may read it as long as the module or library lives.
class DriverImage {
 public:
  // Forms on the wire: 0 bare, 1 wrapper, 2 wrapper with prelinked members. kResourceExhausted when there was no memory for a
  // blob; any other code is a protocol violation: the form and the number of blobs do not belong together, or a blob is missing.
  // None of the blobs is there afterwards.
  static Result<std::unique_ptr<DriverImage>> Build(BlobStore& blobs, uint32_t form, std::span<const uint64_t> ids);

  // What the driver's load functions take.
  const void* data() const { return data_; }
  // Whether that is a wrapper.
  bool wrapped() const { return data_ == &wrapper_; }
  std::vector<std::span<const std::byte>> parts() const;
  // Whether kernels of this image may print: the name of the device function vprintf stands in it, or it is compressed
  // and too large to look into cheaply (kScanBytesMax after decompression).
  bool MayPrint() const;

  static constexpr uint64_t kScanBytesMax = uint64_t{16} << 20;

 private:
  struct Wrapper {
    uint32_t magic;
    uint32_t version;
    const void* data;
    const void* list;
  };
  std::vector<BlobStore::Bytes> parts_;
  std::vector<const void*> prelinked_;  // NULL-terminated
  Wrapper wrapper_{};
  const void* data_ = nullptr;
};

// Images by the handle of their module or library; of libraries also the options they were loaded with, as they may be compiled
// when they are first used (cuda.h, cuLibraryLoadData). A part of the worker. Any thread.
class LoadedImages {
 public:
  // `options`: what the driver may still write to; empty for modules, which are compiled by the call that loads them.
  void Keep(HandleId owner, std::unique_ptr<DriverImage> image, JitOptions options);
  void Drop(HandleId owner);

 private:
  struct Loaded {
    std::unique_ptr<DriverImage> image;
    JitOptions options;  // moved here: its arrays stay in their places
  };

  Mutex mutex_;
  std::unordered_map<uint64_t, Loaded> images_ GUARDED_BY(mutex_);
};

}  // namespace tessera
