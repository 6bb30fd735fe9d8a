#include "server/worker/memory/limit_charges.h"

#include <algorithm>

#include "generated/driver_table.h"

namespace tessera {

uint64_t LimitCharges::BytesPerUnit(CUdevice device, CUlimit limit) const {
  switch (limit) {
    case CU_LIMIT_MALLOC_HEAP_SIZE:
    case CU_LIMIT_PRINTF_FIFO_SIZE: return 1;
    case CU_LIMIT_STACK_SIZE: {
      int processors = 0, threads = 0;
      driver_.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
      driver_.cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device);
      return static_cast<uint64_t>(std::max(processors, 0)) * static_cast<uint64_t>(std::max(threads, 0));
    }
    default: return 0;
  }
}

CUresult LimitCharges::Set(uint64_t context, CUdevice device, CUlimit limit, uint64_t value,
                           const std::function<CUresult()>& set) {
  const uint64_t unit = ledger_.limited(device) ? BytesPerUnit(device, limit) : 0;
  if (unit == 0) return set();
  MutexLock lock(mutex_);
  const auto [place, is_new] = charges_.try_emplace({context, limit}, Charge{device});
  Charge& charge = place->second;
  size_t present = 0;
  if (is_new && driver_.cuCtxGetLimit(&present, limit) == CUDA_SUCCESS) charge.base = present;
  uint64_t wanted = 0;
  if (__builtin_mul_overflow(value - std::min(value, charge.base), unit, &wanted)) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t more = wanted - std::min(wanted, charge.bytes);
  if (!ledger_.Take(device, MemoryKind::kKernels, more)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = set();
  if (result != CUDA_SUCCESS) {
    ledger_.Give(device, MemoryKind::kKernels, more);
    return result;
  }
  if (wanted < charge.bytes) ledger_.Give(device, MemoryKind::kKernels, charge.bytes - wanted);
  charge.bytes = wanted;
  return result;
}

void LimitCharges::Forget(uint64_t context) {
  MutexLock lock(mutex_);
  const auto begin = charges_.lower_bound({context, CUlimit(0)});
  const auto end = charges_.lower_bound({context + 1, CUlimit(0)});
  for (auto each = begin; each != end; ++each) ledger_.Give(each->second.device, MemoryKind::kKernels, each->second.bytes);
  charges_.erase(begin, end);
}

}  // namespace tessera
