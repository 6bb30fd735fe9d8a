#include "server/worker/memory/host_mappings.h"

#include <sys/mman.h>

#include <iterator>
#include <span>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "server/worker/memory/host_segments.h"
#include "server/worker/memory/reserved_ranges.h"
#include "server/worker/object_table.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// Leaves the range as the driver leaves reserved addresses: nothing is mapped there, and nobody else gets the place.
void RestoreReservation(const Range& range) {
  void* const restored = mmap(reinterpret_cast<void*>(range.base), range.bytes, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (restored == MAP_FAILED) LogError("{} bytes at {:#x} could not be unmapped: errno {}", range.bytes, range.base, errno);
}

}  // namespace

CUresult HostMappings::Map(uint32_t segment, const Range& range) {
  Channel& channel = worker_.channel();
  const std::span<std::byte> bytes = channel.Resolve(segment, 0, range.bytes);
  const bool pages = range.base % kPageBytes == 0 && range.bytes % kPageBytes == 0 && range.bytes != 0;
  if (bytes.data() == nullptr && !channel.WhyRefused(segment).ok()) return CUDA_ERROR_OUT_OF_MEMORY;
  if (bytes.data() == nullptr || !pages || !reserved_.Contains(range.base, range.bytes) || !channel.segments().Claim(segment)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  {
    MutexLock lock(mutex_);
    const auto next = mappings_.lower_bound(range.base);
    const bool taken = (next != mappings_.end() && next->first < range.end()) ||
                       (next != mappings_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > range.base);
    if (taken) return CUDA_ERROR_INVALID_VALUE;
    mappings_.emplace(range.base, Mapping{range.bytes, HandleId()});
  }
  // With an old size of 0 mremap(2) maps the same pages once more.
  void* const mapped = mremap(bytes.data(), 0, range.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, reinterpret_cast<void*>(range.base));
  HandleId context;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (mapped == MAP_FAILED) {
    LogWarning("{} bytes of host memory could not be mapped at {:#x}: errno {}", range.bytes, range.base, errno);
  } else {
    result = Register(range, HandleId(), &context);
    if (result != CUDA_SUCCESS) RestoreReservation(range);
  }
  if (const Status closed = channel.CloseSegment(segment); !closed.ok()) {
    LogDebug("segment {} could not be closed: {}", segment, closed.message());
  }
  MutexLock lock(mutex_);
  if (result == CUDA_SUCCESS) {
    mappings_[range.base].context = context;
  } else {
    mappings_.erase(range.base);
  }
  return result;
}

CUresult HostMappings::Register(const Range& range, HandleId not_in, HandleId* context) {
  std::vector<HandleId> contexts;
  worker_.objects().ForEach(HandleKind::kContext, [&](HandleId id, uint64_t) {
    if (id != not_in) contexts.push_back(id);
  });
  const DriverTable& driver = worker_.driver();
  void* const memory = reinterpret_cast<void*>(range.base);
  CUresult result = CUDA_SUCCESS;
  for (const HandleId id : contexts) {
    if (worker_.SetContext(id) != CUDA_SUCCESS) continue;  // destroyed meanwhile
    result = driver.cuMemHostRegister_v2(memory, range.bytes, kHostRegisterFlags);
    if (result != CUDA_SUCCESS) continue;  // a context that has failed registers nothing
    CUdeviceptr device_pointer = 0;
    result = driver.cuMemHostGetDevicePointer_v2(&device_pointer, memory, 0);
    if (result == CUDA_SUCCESS && device_pointer == range.base) {
      *context = id;
      return CUDA_SUCCESS;
    }
    driver.cuMemHostUnregister(memory);
    if (result != CUDA_SUCCESS) continue;
    LogError("driver maps host memory at {:#x} to the device address {:#x}: it needs equal addresses", range.base,
             uint64_t{device_pointer});
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return result;
}

CUresult HostMappings::Unmap(uint64_t address) {
  Mapping mapping{};
  {
    MutexLock lock(mutex_);
    const auto found = mappings_.find(address);
    if (found == mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
    mapping = found->second;
  }
  CUresult result = CUDA_SUCCESS;
  if (!mapping.context.is_null() && worker_.SetContext(mapping.context) == CUDA_SUCCESS) {
    result = worker_.driver().cuMemHostUnregister(reinterpret_cast<void*>(address));
  }
  RestoreReservation(Range{address, mapping.bytes});
  MutexLock lock(mutex_);
  mappings_.erase(address);
  return result;
}

bool HostMappings::Contains(uint64_t address, uint64_t bytes) {
  MutexLock lock(mutex_);
  const auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin()) return false;
  const auto& [base, mapping] = *std::prev(next);
  return Range{base, mapping.bytes}.contains(address, bytes);
}

void HostMappings::BeginContext() {
  std::vector<Range> waiting;
  {
    MutexLock lock(mutex_);
    for (const auto& [base, mapping] : mappings_) {
      if (mapping.context.is_null()) waiting.push_back(Range{base, mapping.bytes});
    }
  }
  for (const Range& range : waiting) {
    HandleId context;
    const CUresult result = Register(range, HandleId(), &context);
    if (result != CUDA_SUCCESS) {
      LogError("{} bytes of host memory at {:#x} are out of the device's reach: result {}", range.bytes, range.base, int(result));
    }
    MutexLock lock(mutex_);
    if (const auto found = mappings_.find(range.base); found != mappings_.end()) found->second.context = context;
  }
}

void HostMappings::EndContext(HandleId context) {
  std::vector<Range> registered;
  {
    MutexLock lock(mutex_);
    for (const auto& [base, mapping] : mappings_) {
      if (mapping.context == context) registered.push_back(Range{base, mapping.bytes});
    }
  }
  for (const Range& range : registered) worker_.driver().cuMemHostUnregister(reinterpret_cast<void*>(range.base));
  for (const Range& range : registered) {
    HandleId other;
    Register(range, context, &other);
    MutexLock lock(mutex_);
    if (const auto found = mappings_.find(range.base); found != mappings_.end()) found->second.context = other;
  }
}

}  // namespace tessera
