#include "server/worker/memory/limit_charges.h"

#include <algorithm>

#include "generated/driver_table.h"

namespace tessera {
namespace {

// The driver takes local memory in pieces of this size.
constexpr uint64_t kLocalPieceBytes = 2 << 20;

// Returns the bytes that a limit of `value` sets aside beyond `base`; UINT64_MAX: more than there can be.
uint64_t BytesFor(CUlimit limit, uint64_t unit, uint64_t base, uint64_t value) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(value - std::min(value, base), unit, &bytes) || bytes > UINT64_MAX / 2) return UINT64_MAX;
  return limit == CU_LIMIT_STACK_SIZE ? (bytes + kLocalPieceBytes - 1) / kLocalPieceBytes * kLocalPieceBytes : bytes;
}

}  // namespace

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

std::optional<uint64_t> LimitCharges::Present(CUlimit limit) const {
  size_t value = 0;
  if (driver_.cuCtxGetLimit == nullptr || driver_.cuCtxGetLimit(&value, limit) != CUDA_SUCCESS) return std::nullopt;
  return value;
}

LimitCharges::Charge& LimitCharges::Find(const Key& key, CUdevice device) {
  const auto [place, is_new] = charges_.try_emplace(key, Charge{device});
  Charge& charge = place->second;
  if (is_new) {
    charge.unit = BytesPerUnit(device, key.second);
    charge.base = Present(key.second).value_or(0);
  }
  return charge;
}

bool LimitCharges::Begin(const Key& key, CUdevice device, uint64_t value) {
  MutexLock lock(mutex_);
  Charge& charge = Find(key, device);
  const uint64_t wanted = BytesFor(key.second, charge.unit, charge.base, value);
  const uint64_t more = wanted - std::min(wanted, charge.bytes);
  if (!ledger_.Take(device, MemoryKind::kKernels, more)) return false;
  charge.bytes += more;
  ++charge.changes;
  return true;
}

std::optional<uint64_t> LimitCharges::End(const Key& key) {
  const auto found = charges_.find(key);
  if (found == charges_.end()) return std::nullopt;  // the context has ended meanwhile
  Charge& charge = found->second;
  --charge.changes;
  const std::optional<uint64_t> present = Present(key.second);
  if (!present.has_value()) return std::nullopt;
  const uint64_t bytes = BytesFor(key.second, charge.unit, charge.base, *present);
  if (bytes > charge.bytes) {
    ledger_.Add(charge.device, MemoryKind::kKernels, bytes - charge.bytes);
  } else if (charge.changes == 0) {
    ledger_.Give(charge.device, MemoryKind::kKernels, charge.bytes - bytes);
  } else {
    return present;  // another change under way may have counted what it is about to need
  }
  charge.bytes = bytes;
  return present;
}

CUresult LimitCharges::Set(uint64_t context, CUdevice device, CUlimit limit, uint64_t value,
                           const std::function<CUresult()>& set) {
  if (BytesPerUnit(device, limit) == 0) return set();
  if (!Begin({context, limit}, device, value)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (limit == CU_LIMIT_STACK_SIZE) ForgetFits();  // before the driver has less
  const CUresult result = set();
  MutexLock lock(mutex_);
  End({context, limit});
  if (limit == CU_LIMIT_STACK_SIZE) ForgetFits();  // and what launches stored meanwhile
  return result;
}

uint64_t LimitCharges::OwnBytes(uint64_t context, CUdevice device) {
  MutexLock lock(mutex_);
  return Find({context, CU_LIMIT_STACK_SIZE}, device).base;
}

bool LimitCharges::BeginLaunch(uint64_t context, CUdevice device, uint64_t local_bytes) {
  return Begin({context, CU_LIMIT_STACK_SIZE}, device, local_bytes);
}

void LimitCharges::EndLaunch(uint64_t context, HandleId named) {
  MutexLock lock(mutex_);
  const std::optional<uint64_t> present = End({context, CU_LIMIT_STACK_SIZE});
  if (!present.has_value()) return;
  const uint64_t word = uint64_t{named.slot()} << 32 | std::min<uint64_t>(*present, UINT32_MAX);
  fits_[named.slot() % kFits].store(word, std::memory_order_relaxed);
}

void LimitCharges::Forget(uint64_t context) {
  MutexLock lock(mutex_);
  const auto begin = charges_.lower_bound({context, CUlimit(0)});
  const auto end = charges_.lower_bound({context + 1, CUlimit(0)});
  for (auto each = begin; each != end; ++each) ledger_.Give(each->second.device, MemoryKind::kKernels, each->second.bytes);
  charges_.erase(begin, end);
  ForgetFits();
}

}  // namespace tessera
