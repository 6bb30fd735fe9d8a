// Arrays and mipmapped arrays: plain storage, row after row, with a descriptor.
// Source: CUDA driver API, cuArray3DCreate, cuMipmappedArrayCreate.
#pragma once

#include <memory>
#include <vector>

#include "server/emulator/driver/core/state.h"

namespace tessera::emulator {

// Bytes of one element of one channel; 0 for formats that arrays here do not have.
unsigned FormatBytes(CUarray_format format);

class Array {
 public:
  Array(const ContextPtr& context, const CUDA_ARRAY3D_DESCRIPTOR& descriptor, uint64_t base, uint64_t size_bytes, bool owner)
      : context_(context->handle()),
        device_(&context->device()),
        descriptor_(descriptor),
        base_(base),
        size_bytes_(size_bytes),
        owner_(owner) {}
  ~Array();
  uint64_t context_handle() const { return context_; }
  const CUDA_ARRAY3D_DESCRIPTOR& descriptor() const { return descriptor_; }
  bool owner() const { return owner_; }  // false for a level of a mipmapped array
  uint64_t base() const { return base_; }
  uint64_t size_bytes() const { return size_bytes_; }
  uint64_t element_bytes() const { return FormatBytes(descriptor_.Format) * descriptor_.NumChannels; }
  uint64_t row_bytes() const { return descriptor_.Width * element_bytes(); }
  uint64_t rows() const { return descriptor_.Height == 0 ? 1 : descriptor_.Height; }
  uint64_t slices() const { return descriptor_.Depth == 0 ? 1 : descriptor_.Depth; }

 private:
  const uint64_t context_;
  Device* const device_;
  const CUDA_ARRAY3D_DESCRIPTOR descriptor_;
  const uint64_t base_;
  const uint64_t size_bytes_;
  const bool owner_;
};

class MipmappedArray {
 public:
  MipmappedArray(const ContextPtr& context, std::vector<uint64_t> levels, uint64_t size_bytes)
      : context_(context->handle()), levels_(std::move(levels)), size_bytes_(size_bytes) {}
  ~MipmappedArray();
  uint64_t context_handle() const { return context_; }
  const std::vector<uint64_t>& levels() const { return levels_; }  // handles of arrays
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  const uint64_t context_;
  const std::vector<uint64_t> levels_;
  const uint64_t size_bytes_;
};

}  // namespace tessera::emulator
