#include "server/worker/code/layout_table.h"

#include <algorithm>

#include "generated/driver_table.h"
#include "server/worker/object_table.h"
#include "server/worker/recent_launches.h"
#include "server/worker/streams/stream_visits.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

// Fills in what launches the kernel, which is loaded by now, takes.
void FindLimits(const DriverTable& driver, bool is_kernel, uint64_t object, KernelLayout* layout) {
  constexpr int kSharedBytes = 48 << 10;  // without an attribute that says more (programming guide, "Shared Memory")
  CUdevice device = 0;
  if (is_kernel && driver.cuCtxGetDevice(&device) != CUDA_SUCCESS) return;
  const auto ask = [&](CUfunction_attribute attribute, int* value) {
    return is_kernel ? driver.cuKernelGetAttribute(value, attribute, reinterpret_cast<CUkernel>(object), device)
                     : driver.cuFuncGetAttribute(value, attribute, reinterpret_cast<CUfunction>(object));
  };
  int local_bytes = 0;
  if (ask(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &local_bytes) == CUDA_SUCCESS) {
    layout->local_bytes = static_cast<uint32_t>(std::max(local_bytes, 0));
  }
  int version = 0, threads = 0, fixed_bytes = 0, dynamic_bytes = 0, cluster = 0, cluster_needed = 0;
  if (ask(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &threads) != CUDA_SUCCESS ||
      ask(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &fixed_bytes) != CUDA_SUCCESS ||
      ask(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &dynamic_bytes) != CUDA_SUCCESS ||
      ask(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, &cluster) != CUDA_SUCCESS ||
      ask(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, &cluster_needed) != CUDA_SUCCESS ||
      ask(CU_FUNC_ATTRIBUTE_BINARY_VERSION, &version) != CUDA_SUCCESS) {
    return;
  }
  size_t local_limit = 0;
  if (layout->local_bytes != 0 &&
      (driver.cuCtxGetLimit == nullptr || driver.cuCtxGetLimit(&local_limit, CU_LIMIT_STACK_SIZE) != CUDA_SUCCESS ||
       layout->local_bytes > local_limit)) {
    return;  // a launch takes memory
  }
  // Blocks of a cluster have to fit together. Code for no version that the device has is found out by a launch.
  if (cluster != 0 || cluster_needed != 0 || version == 0) return;
  layout->max_threads = static_cast<uint32_t>(std::max(threads, 0));
  layout->max_shared_bytes = static_cast<uint32_t>(std::max(std::min(dynamic_bytes, kSharedBytes - fixed_bytes), 0));
}

// "?" where the driver does not tell.
const char* NameIn(const DriverTable& driver, bool is_kernel, uint64_t object) {
  const char* name = nullptr;
  if (is_kernel && driver.cuKernelGetName != nullptr) driver.cuKernelGetName(&name, reinterpret_cast<CUkernel>(object));
  if (!is_kernel && driver.cuFuncGetName != nullptr) driver.cuFuncGetName(&name, reinterpret_cast<CUfunction>(object));
  return name != nullptr ? name : "?";
}

}  // namespace

void LayoutTable::Change(Recent& recent, uint64_t function, const KernelLayout* layout) {
  const uint64_t changes = recent.changes.load(std::memory_order_relaxed);
  recent.changes.store(changes + 1, std::memory_order_relaxed);
  // Whoever reads one of these sees the odd number as well.
  recent.function.store(function, std::memory_order_release);
  recent.layout.store(layout, std::memory_order_release);
  recent.changes.store(changes + 2, std::memory_order_release);
}

const KernelLayout* LayoutTable::Remember(HandleId function, const KernelLayout* layout) {
  Change(recent_[function.slot() % kRecent], function.value(), layout);
  return layout;
}

const KernelLayout* LayoutTable::FindSlowly(HandleId function, CUresult* error) {
  {
    MutexLock lock(mutex_);
    const auto found = layouts_.find(function.value());
    if (found != layouts_.end()) return Remember(function, found->second.get());
  }
  const bool is_kernel = function.kind() == HandleKind::kKernel;
  uint64_t object = 0;
  const DriverTable& driver = worker_.driver();
  if (!worker_.objects().Find(function, &object)) {
    *error = CUDA_ERROR_INVALID_HANDLE;
    return nullptr;
  }
  if (driver.cuKernelGetParamInfo == nullptr || driver.cuFuncGetParamInfo == nullptr) {
    *error = CUDA_ERROR_NOT_SUPPORTED;  // drivers before CUDA 12.4
    return nullptr;
  }
  worker_.parts().stream_visits().Settle();  // the driver loads a kernel when it is first asked about
  auto layout = std::make_unique<KernelLayout>();
  for (size_t i = 0; i < kParametersMax; ++i) {
    size_t offset = 0;
    size_t size = 0;
    const CUresult result = is_kernel ? driver.cuKernelGetParamInfo(reinterpret_cast<CUkernel>(object), i, &offset, &size)
                                      : driver.cuFuncGetParamInfo(reinterpret_cast<CUfunction>(object), i, &offset, &size);
    if (result == CUDA_ERROR_INVALID_VALUE) break;  // documented: the index is past the last parameter
    if (result != CUDA_SUCCESS) {
      *error = result;
      return nullptr;
    }
    layout->offsets_and_sizes.push_back(static_cast<uint32_t>(offset));
    layout->offsets_and_sizes.push_back(static_cast<uint32_t>(size));
    layout->bytes = std::max(layout->bytes, static_cast<uint32_t>(offset + size));
  }
  FindLimits(driver, is_kernel, object, layout.get());
  layout->name = worker_.recent_launches().Keep(NameIn(driver, is_kernel, object));
  MutexLock lock(mutex_);
  if (layout->local_bytes > largest_local_bytes()) largest_local_bytes_.store(layout->local_bytes, std::memory_order_relaxed);
  return Remember(function, layouts_.try_emplace(function.value(), std::move(layout)).first->second.get());
}

void LayoutTable::Drop(HandleId function) {
  MutexLock lock(mutex_);
  Recent& recent = recent_[function.slot() % kRecent];
  if (recent.function.load(std::memory_order_relaxed) == function.value()) Change(recent, 0, nullptr);
  layouts_.erase(function.value());
}

}  // namespace tessera
