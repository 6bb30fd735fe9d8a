#include "server/worker/memory/reserved_ranges.h"

#include <iterator>

#include "generated/driver_table.h"
#include "protocol/channel/segment.h"

namespace tessera {
namespace {

bool Touch(const Range& a, const Range& b) { return a.base < b.end() && b.base < a.end(); }

}  // namespace

ReservedRanges::~ReservedRanges() {
  MutexLock lock(mutex_);
  for (const auto& [base, bytes] : ranges_) {
    if (!windows_.device.contains(base)) driver_.cuMemAddressFree(base, bytes);
  }
}

CUresult ReservedRanges::Reserve(const Range& range, bool* reserved) {
  *reserved = false;
  if (range.bytes == 0 || range.base > UINT64_MAX - range.bytes) return CUDA_ERROR_INVALID_VALUE;
  if (Touch(range, windows_.device) || Touch(range, windows_.host)) return CUDA_SUCCESS;
  if (driver_.cuMemAddressReserve == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  MutexLock lock(mutex_);
  if (client_in_process_) ReleaseAddressRange(range.base, range.bytes);
  CUdeviceptr address = 0;
  const CUresult result = driver_.cuMemAddressReserve(&address, range.bytes, 0, range.base, 0);
  if (result == CUDA_SUCCESS && address == range.base) {
    ranges_.emplace(range.base, range.bytes);
    *reserved = true;
    return CUDA_SUCCESS;
  }
  if (result == CUDA_SUCCESS) driver_.cuMemAddressFree(address, range.bytes);
  // A driver that has run out of addresses here may have some at another place.
  return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
}

bool ReservedRanges::AddInWindow(const Range& range) {
  MutexLock lock(mutex_);
  if (in_window_bytes_ + range.bytes > windows_.device.bytes / 2) return false;
  in_window_bytes_ += range.bytes;
  ranges_.emplace(range.base, range.bytes);
  return true;
}

bool ReservedRanges::RemoveInWindow(const Range& range) {
  MutexLock lock(mutex_);
  const auto found = ranges_.find(range.base);
  if (found == ranges_.end() || found->second != range.bytes || !windows_.device.contains(range.base)) return false;
  in_window_bytes_ -= range.bytes;
  ranges_.erase(found);
  return true;
}

CUresult ReservedRanges::Release(const Range& range) {
  MutexLock lock(mutex_);
  const auto found = ranges_.find(range.base);
  if (found == ranges_.end() || found->second != range.bytes) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = driver_.cuMemAddressFree(range.base, range.bytes);
  if (result == CUDA_SUCCESS) ranges_.erase(found);
  return result;
}

bool ReservedRanges::Contains(uint64_t address, uint64_t bytes) {
  MutexLock lock(mutex_);
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return false;
  --range;
  Range part{range->first, range->second};
  if (!part.contains(address)) return false;
  while (!part.contains(address, bytes)) {
    bytes -= part.end() - address;
    address = part.end();
    ++range;
    if (range == ranges_.end() || range->first != address) return false;
    part = {range->first, range->second};
  }
  return true;
}

}  // namespace tessera
