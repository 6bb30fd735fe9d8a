#include "server/emulator/driver/code/function_attributes.h"

#include "protocol/base/log.h"
#include "server/emulator/driver/device/device_attributes.h"

namespace tessera::emulator {

namespace {

constexpr int kBinaryVersion = 90;

}  // namespace

int BinaryVersion(const Function& function) {
  return function.kernel() != nullptr && Prepare(*function.kernel()).ok() ? kBinaryVersion : 0;
}

CUresult ParameterInfo(const KernelInfo& info, size_t index, size_t* offset, size_t* size) {
  RETURN_IF(offset == nullptr || index >= info.parameters.size(), CUDA_ERROR_INVALID_VALUE);
  *offset = info.parameters[index].offset_bytes;
  if (size != nullptr) *size = info.parameters[index].size_bytes;
  return CUDA_SUCCESS;
}

int MaxDynamicShared(const KernelInfo& info, const FunctionSettings& settings) {
  const int set = settings.max_dynamic_shared.load();
  return set >= 0 ? set : std::max(0, kSharedPerBlock - static_cast<int>(info.static_shared_bytes));
}

CUresult FunctionAttribute(const KernelInfo& info, const FunctionSettings& settings, CUfunction_attribute attribute, int* value) {
  auto cluster = [&](const std::atomic<int>& set, int axis) {
    return set != 0 ? set.load() : static_cast<int>(info.required_cluster[axis]);
  };
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = static_cast<int>(info.max_threads_per_block); break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = static_cast<int>(info.static_shared_bytes); break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = static_cast<int>(info.const_bytes); break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = static_cast<int>(info.local_bytes); break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = static_cast<int>(info.register_count); break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = static_cast<int>(info.target_sm); break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = kBinaryVersion; break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = MaxDynamicShared(info, settings); break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = settings.carveout; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: *value = info.needs_cluster; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: *value = cluster(settings.cluster_width, 0); break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: *value = cluster(settings.cluster_height, 1); break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: *value = cluster(settings.cluster_depth, 2); break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: *value = settings.non_portable_cluster; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: *value = settings.cluster_policy; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult SetFunctionAttribute(const KernelInfo& info, FunctionSettings& settings, CUfunction_attribute attribute, int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      RETURN_IF(value < 0 || value > kSharedPerBlockOptin - static_cast<int>(info.static_shared_bytes), CUDA_ERROR_INVALID_VALUE);
      settings.max_dynamic_shared = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      RETURN_IF(value < -1 || value > 100, CUDA_ERROR_INVALID_VALUE);
      settings.carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      RETURN_IF(value < 0, CUDA_ERROR_INVALID_VALUE);
      settings.cluster_width = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      RETURN_IF(value < 0, CUDA_ERROR_INVALID_VALUE);
      settings.cluster_height = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      RETURN_IF(value < 0, CUDA_ERROR_INVALID_VALUE);
      settings.cluster_depth = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      RETURN_IF(value != 0 && value != 1, CUDA_ERROR_INVALID_VALUE);
      settings.non_portable_cluster = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      RETURN_IF(value < 0 || value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING, CUDA_ERROR_INVALID_VALUE);
      settings.cluster_policy = value;
      return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult PrepareFunction(const Function& function) {
  if (function.kernel() == nullptr) {
    LogError("the emulator runs PTX only, and the image of kernel {} has machine code alone", function.info().name);
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  if (Status status = Prepare(*function.kernel()); !status.ok()) {
    LogError("the emulator cannot run kernel {}: {}", function.info().name, status.message());
    return CUDA_ERROR_INVALID_PTX;
  }
  return CUDA_SUCCESS;
}

}  // namespace tessera::emulator
