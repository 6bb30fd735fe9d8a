#include "server/emulator/driver/code/kernel_command.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "protocol/base/log.h"
#include "server/emulator/driver/code/conditional.h"
#include "server/emulator/driver/code/function_attributes.h"
#include "server/emulator/driver/code/kernel_requests.h"
#include "server/emulator/driver/device/device_attributes.h"

namespace tessera::emulator {
namespace {

CUresult CheckShape(const LaunchShape& shape) {
  for (uint32_t extent : {shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y, shape.block.z}) {
    RETURN_IF(extent == 0, CUDA_ERROR_INVALID_VALUE);
  }
  RETURN_IF(shape.grid.x > INT32_MAX || shape.grid.y > 65535 || shape.grid.z > 65535, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(shape.block.x > 1024 || shape.block.y > 1024 || shape.block.z > 64, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(uint64_t{shape.block.x} * shape.block.y * shape.block.z > kMaxThreadsPerBlock, CUDA_ERROR_INVALID_VALUE);
  const Dim3& cluster = shape.cluster;
  RETURN_IF(cluster.x == 0 || cluster.y == 0 || cluster.z == 0, CUDA_ERROR_INVALID_CLUSTER_SIZE);
  RETURN_IF(shape.grid.x % cluster.x != 0 || shape.grid.y % cluster.y != 0 || shape.grid.z % cluster.z != 0,
            CUDA_ERROR_INVALID_CLUSTER_SIZE);
  RETURN_IF(uint64_t{cluster.x} * cluster.y * cluster.z > 16, CUDA_ERROR_INVALID_CLUSTER_SIZE);
  return CUDA_SUCCESS;
}

CUresult CheckResources(const Function& function, const LaunchShape& shape, int multiprocessors) {
  const KernelInfo& info = function.info();
  const uint32_t threads = shape.block.x * shape.block.y * shape.block.z;
  RETURN_IF(threads > info.max_threads_per_block, CUDA_ERROR_INVALID_VALUE);
  if (info.required_block[0] != 0) {
    RETURN_IF(info.required_block[0] != shape.block.x || std::max(1u, info.required_block[1]) != shape.block.y ||
                  std::max(1u, info.required_block[2]) != shape.block.z,
              CUDA_ERROR_INVALID_VALUE);
  }
  RETURN_IF(uint64_t{RoundUp(info.register_count, 8)} * RoundUp(threads, kWarpSize) > kRegistersPerMultiprocessor,
            CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  RETURN_IF(shape.shared_bytes > static_cast<unsigned>(MaxDynamicShared(info, function.settings())), CUDA_ERROR_INVALID_VALUE);
  if (shape.cooperative) {
    const uint64_t resident = static_cast<uint64_t>(multiprocessors) *
                              static_cast<uint64_t>(ActiveBlocks(info, static_cast<int>(threads), shape.shared_bytes));
    RETURN_IF(uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z > resident, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  }
  // To a kernel that does not know of clusters it is all the same.
  const bool clustered = shape.cluster.x * shape.cluster.y * shape.cluster.z != 1 && info.names_clusters;
  const FunctionSettings& settings = function.settings();
  const uint32_t required =
      std::max(1u, info.required_cluster[0]) * std::max(1u, info.required_cluster[1]) * std::max(1u, info.required_cluster[2]);
  if (clustered || required > 1 || settings.cluster_width > 1 || settings.cluster_height > 1 || settings.cluster_depth > 1) {
    LogError("the emulator runs no thread block clusters; kernel {} wants one", info.name);
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult PackParameters(const KernelInfo& info, void** params, void** extra, std::vector<std::byte>* packed) {
  RETURN_IF(params != nullptr && extra != nullptr, CUDA_ERROR_INVALID_VALUE);
  packed->assign(info.parameter_bytes, std::byte{0});
  if (info.parameters.empty()) return CUDA_SUCCESS;
  if (params != nullptr) {
    for (size_t i = 0; i < info.parameters.size(); ++i) {
      RETURN_IF(params[i] == nullptr, CUDA_ERROR_INVALID_VALUE);
      memcpy(packed->data() + info.parameters[i].offset_bytes, params[i], info.parameters[i].size_bytes);
    }
    return CUDA_SUCCESS;
  }
  RETURN_IF(extra == nullptr, CUDA_ERROR_INVALID_VALUE);
  const void* buffer = nullptr;
  size_t size_bytes = 0;
  for (void** option = extra; *option != CU_LAUNCH_PARAM_END; option += 2) {
    if (*option == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = option[1];
    } else if (*option == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      size_bytes = *static_cast<size_t*>(option[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  RETURN_IF(buffer == nullptr || size_bytes == 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(size_bytes > RoundUp(packed->size(), 8), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  memcpy(packed->data(), buffer, std::min(size_bytes, packed->size()));
  return CUDA_SUCCESS;
}

// How long the kernel occupies the device, when it says so.
std::optional<uint64_t> StatedNs(const KernelInfo& info, const std::vector<std::byte>& parameters) {
  if (info.duration_parameter < 0) return std::nullopt;
  const Parameter& parameter = info.parameters[static_cast<size_t>(info.duration_parameter)];
  uint64_t duration_us = 0;
  memcpy(&duration_us, parameters.data() + parameter.offset_bytes, parameter.size_bytes);
  return std::min(duration_us, UINT64_MAX / 2000) * 1000;
}

LaunchResult RunOnDevice(const Launch& launch, Environment* environment, DeviceTime& time, std::optional<uint64_t> stated_ns) {
  if (!stated_ns) {
    JoinDevice(time);
    DeviceTime::Body body(time, environment->cancel);
    environment->turn = &body;
    return Run(launch, *environment);
  }
  LaunchResult result = Run(launch, *environment);
  if (!result.ok()) return result;
  JoinDevice(time);
  time.Occupy(*stated_ns, environment->cancel);
  return result;
}

CUresult ErrorOf(LaunchError error) {
  switch (error) {
    case LaunchError::kNone:
    case LaunchError::kCancelled: return CUDA_SUCCESS;
    case LaunchError::kIllegalAddress: return CUDA_ERROR_ILLEGAL_ADDRESS;
    case LaunchError::kMisalignedAddress: return CUDA_ERROR_MISALIGNED_ADDRESS;
    case LaunchError::kIllegalInstruction: return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case LaunchError::kAssert: return CUDA_ERROR_ASSERT;
    case LaunchError::kStackOverflow: return CUDA_ERROR_HARDWARE_STACK_ERROR;
    case LaunchError::kDeadlock: return CUDA_ERROR_LAUNCH_TIMEOUT;
    case LaunchError::kInvalidValue:
    case LaunchError::kUnsupported:
    case LaunchError::kTrap: return CUDA_ERROR_LAUNCH_FAILED;
  }
  return CUDA_ERROR_UNKNOWN;
}

}  // namespace

int ActiveBlocks(const KernelInfo& info, int block_threads, uint64_t dynamic_shared_bytes) {
  if (block_threads <= 0 || static_cast<uint32_t>(block_threads) > info.max_threads_per_block) return 0;
  const uint64_t threads = RoundUp(static_cast<uint64_t>(block_threads), kWarpSize);
  const uint64_t shared = info.static_shared_bytes + dynamic_shared_bytes + kReservedSharedPerBlock;
  if (info.static_shared_bytes + dynamic_shared_bytes > kSharedPerBlockOptin) return 0;
  uint64_t blocks = std::min<uint64_t>(kMaxBlocksPerMultiprocessor, kMaxThreadsPerMultiprocessor / threads);
  blocks = std::min<uint64_t>(blocks, kSharedPerMultiprocessor / shared);
  if (info.register_count != 0) {
    blocks = std::min<uint64_t>(blocks, kRegistersPerMultiprocessor / (RoundUp(info.register_count, 8) * threads));
  }
  return static_cast<int>(blocks);
}

CUresult KernelCommand::Make(const ContextPtr& context, CUfunction handle, const LaunchShape& shape, void** params, void** extra,
                             std::shared_ptr<KernelCommand>* command) {
  RETURN_IF(handle == nullptr, CUDA_ERROR_INVALID_HANDLE);
  auto made = std::make_shared<KernelCommand>();
  made->handle_ = handle;
  made->shape_ = shape;
  RETURN_ON_ERROR(ResolveFunction(context, handle, &made->function_));
  RETURN_IF(made->function_->module()->context_handle() != context->owner_handle(), CUDA_ERROR_INVALID_HANDLE);
  RETURN_ON_ERROR(CheckShape(shape));
  RETURN_ON_ERROR(CheckResources(*made->function_, shape, context->multiprocessors()));
  const KernelInfo& info = made->function_->info();
  RETURN_ON_ERROR(PackParameters(info, params, extra, &made->parameters_));
  RETURN_ON_ERROR(PrepareFunction(*made->function_));
  for (const Parameter& parameter : info.parameters) {
    made->pointers_.push_back(made->parameters_.data() + parameter.offset_bytes);
  }
  *command = std::move(made);
  return CUDA_SUCCESS;
}

std::shared_ptr<KernelCommand> KernelCommand::WithChanges(std::shared_ptr<NodeChanges> changes) const {
  auto made = std::make_shared<KernelCommand>(*this);
  made->pointers_.clear();
  for (const Parameter& parameter : function_->info().parameters) {
    made->pointers_.push_back(made->parameters_.data() + parameter.offset_bytes);
  }
  made->changes_ = std::move(changes);
  return made;
}

CUresult KernelCommand::Execute(Context& context) {
  Launch launch;
  launch.kernel = function_->kernel();
  launch.grid = shape_.grid;
  std::vector<std::byte> parameters = parameters_;
  if (changes_ != nullptr && !changes_->Apply(&launch.grid, &parameters)) return CUDA_SUCCESS;
  launch.block = shape_.block;
  launch.dynamic_shared_bytes = shape_.shared_bytes;
  launch.parameters = parameters;
  launch.cooperative = shape_.cooperative;
  launch.cluster = {1, 1, 1};
  Environment environment;
  environment.memory = &context.memory_map();
  environment.print = &context;
  environment.heap = &context;
  environment.textures = &context;
  ConditionTable conditions;
  environment.conditions = &conditions;
  KernelRequests outside_of_graphs;
  environment.graphs = KernelRequests::Current() != nullptr ? KernelRequests::Current() : &outside_of_graphs;
  environment.cancel = context.cancel_flag();
  environment.seed = GetDriver().Random();
  environment.grid_id = GetDriver().next_grid_id.fetch_add(1);
  const LaunchResult result = RunOnDevice(launch, &environment, context.device().time(), StatedNs(function_->info(), parameters));
  context.FlushPrint();  // as driver 580 does, soon and unasked
  const CUresult error = ErrorOf(result.error);
  if (error == CUDA_SUCCESS) return CUDA_SUCCESS;
  if (result.error == LaunchError::kAssert) {
    fprintf(stderr, "%s\n", result.message.c_str());  // the device's own words, as natively
  } else {
    LogError("kernel {} failed in the emulator: {}", function_->info().name, result.message);
  }
  return error;
}

}  // namespace tessera::emulator
