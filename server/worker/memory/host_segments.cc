#include "server/worker/memory/host_segments.h"

#include <algorithm>

#include "generated/driver_table.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"

namespace tessera {

CUresult HostSegments::Attach(uint64_t context, uint32_t segment, const Range& range) {
  const std::span<std::byte> bytes = channel_.Resolve(segment, 0, range.bytes);
  if (bytes.data() == nullptr && !channel_.WhyRefused(segment).ok()) return CUDA_ERROR_OUT_OF_MEMORY;
  if (bytes.data() == nullptr || range.bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (reinterpret_cast<uint64_t>(bytes.data()) != range.base) return CUDA_ERROR_INVALID_VALUE;
  if (Contains(range.base, 1) || !channel_.segments().Claim(segment)) return CUDA_ERROR_INVALID_VALUE;
  // The lock is not held, since registration takes long. The client names a segment in one Attach only.
  CUresult result = driver_.cuMemHostRegister_v2(bytes.data(), bytes.size(), kHostRegisterFlags);
  if (result != CUDA_SUCCESS) {
    Close(segment);
    return result;
  }
  CUdeviceptr device_pointer = 0;
  result = driver_.cuMemHostGetDevicePointer_v2(&device_pointer, bytes.data(), 0);
  if (result == CUDA_SUCCESS && device_pointer != range.base) {
    LogError("driver maps host memory at {:#x} to the device address {:#x}: pinned memory needs equal addresses", range.base,
             uint64_t{device_pointer});
    result = CUDA_ERROR_NOT_SUPPORTED;
  }
  if (result != CUDA_SUCCESS) {
    driver_.cuMemHostUnregister(bytes.data());
    Close(segment);
    return result;
  }
  MutexLock lock(mutex_);
  segments_.emplace(range.base, Segment{range, context, segment});
  return CUDA_SUCCESS;
}

// Removes the worker's mapping, so that the client may offer another segment at this address.
void HostSegments::Close(uint32_t segment) {
  const Status closed = channel_.CloseSegment(segment);
  if (!closed.ok()) LogDebug("segment {} could not be closed: {}", segment, closed.message());
}

CUresult HostSegments::Detach(uint32_t segment) {
  uint64_t base = 0;
  {
    MutexLock lock(mutex_);
    const auto found =
        std::find_if(segments_.begin(), segments_.end(), [&](const auto& entry) { return entry.second.id == segment; });
    if (found == segments_.end()) return CUDA_ERROR_INVALID_VALUE;
    base = found->first;
    segments_.erase(found);
  }
  // The lock is not held, since the driver waits for kernels that others have launched meanwhile. The executor asks for every
  // copy whether its memory is here.
  const CUresult result = driver_.cuMemHostUnregister(reinterpret_cast<void*>(base));
  Close(segment);
  return result;
}

void HostSegments::EndContext(uint64_t context) {
  MutexLock lock(mutex_);
  for (auto it = segments_.begin(); it != segments_.end();) {
    if (it->second.context != context) {
      ++it;
      continue;
    }
    driver_.cuMemHostUnregister(reinterpret_cast<void*>(it->first));
    Close(it->second.id);
    it = segments_.erase(it);
  }
  if (staging_context_ == context && context != 0) {
    driver_.cuMemHostUnregister(channel_.staging().data());
    staging_context_ = 0;
    staging_tried_ = false;
  }
}

bool HostSegments::Contains(uint64_t address, uint64_t bytes, uint32_t* segment, uint64_t* offset) {
  MutexLock lock(mutex_);
  auto it = segments_.upper_bound(address);
  if (it == segments_.begin()) return false;
  --it;
  if (!it->second.range.contains(address, bytes)) return false;
  if (segment != nullptr) *segment = it->second.id;
  if (offset != nullptr) *offset = address - it->first;
  return true;
}

std::span<std::byte> HostSegments::Staging(uint64_t context, uint64_t offset, uint64_t bytes) {
  const std::span<std::byte> staging = channel_.staging();
  if (!Range{0, staging.size()}.contains(offset, bytes)) return {};
  MutexLock lock(mutex_);
  if (!staging_tried_) {
    staging_tried_ = true;
    const CUresult result = driver_.cuMemHostRegister_v2(staging.data(), staging.size(), kHostRegisterFlags);
    if (result == CUDA_SUCCESS) {
      staging_context_ = context;
    } else {
      LogWarning("driver does not register the staging memory ({} bytes): result {}; pageable copies will be slow",
                 staging.size(), int(result));
    }
  }
  return staging.subspan(offset, bytes);
}

}  // namespace tessera
