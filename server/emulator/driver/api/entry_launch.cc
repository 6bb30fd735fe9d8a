// Kernel launches and occupancy.
#include <cmath>
#include <span>

#include "server/emulator/driver/code/function_attributes.h"
#include "server/emulator/driver/code/kernel_command.h"
#include "server/emulator/driver/device/device_attributes.h"
#include "server/emulator/driver/graphs/capture.h"
#include "server/emulator/driver/graphs/device_graphs.h"

using namespace tessera::emulator;

namespace {

// `updatable` (null as a rule): the node that the launch becomes is one that kernels change, or may be.
CUresult LaunchShaped(CUfunction f, const LaunchShape& shape, CUstream handle, void** params, void** extra,
                      CUlaunchAttributeValue* updatable = nullptr) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(handle, &context, &stream));
  std::unique_lock lock(GetDriver().graph_mutex, std::defer_lock);
  if (updatable != nullptr) {
    lock.lock();
    RETURN_IF(stream->capture == nullptr, CUDA_ERROR_NOT_SUPPORTED);
    RETURN_IF(!MayBeUpdatable(*updatable), CUDA_ERROR_INVALID_VALUE);
  }
  std::shared_ptr<KernelCommand> command;
  if (CUresult result = KernelCommand::Make(context, f, shape, params, extra, &command); result != CUDA_SUCCESS) {
    InvalidateCapture(*stream);
    return result;
  }
  context->FlushPrint();
  RETURN_ON_ERROR(Enqueue(context, stream, command));
  return updatable == nullptr ? CUDA_SUCCESS : SetUpdatable(*stream->capture->graph->nodes.back(), updatable);
}

CUresult ShapeOf(const CUlaunchConfig& config, LaunchShape* shape, CUlaunchAttributeValue** updatable) {
  shape->grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  shape->block = {config.blockDimX, config.blockDimY, config.blockDimZ};
  shape->shared_bytes = config.sharedMemBytes;
  RETURN_IF(config.numAttrs != 0 && config.attrs == nullptr, CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    CUlaunchAttribute& attribute = config.attrs[i];
    switch (attribute.id) {
      case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE: *updatable = &attribute.value; break;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: shape->cooperative = attribute.value.cooperative != 0; break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        shape->cluster = {attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z};
        if (shape->cluster.x + shape->cluster.y + shape->cluster.z == 0) shape->cluster = {1, 1, 1};  // none, as natively
        break;
      // Hints, which change nothing that a program can see here.
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT: return CUDA_ERROR_NOT_SUPPORTED;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

// One launch of a list over several devices.
struct DeviceLaunch {
  ContextPtr context;
  StreamPtr stream;
  std::shared_ptr<KernelCommand> command;
};

// Checks a list as documented: streams of its own on devices of their own, one kernel, one shape.
CUresult MakeDeviceLaunches(const CUDA_LAUNCH_PARAMS* list, unsigned count, std::vector<DeviceLaunch>* launches) {
  ContextPtr current;
  RETURN_ON_ERROR(EnterContext(&current));
  for (const CUDA_LAUNCH_PARAMS& params : std::span(list, count)) {
    RETURN_IF(params.hStream == nullptr || params.hStream == CU_STREAM_LEGACY || params.hStream == CU_STREAM_PER_THREAD,
              CUDA_ERROR_INVALID_HANDLE);
    DeviceLaunch launch;
    launch.stream = GetDriver().streams.Find(params.hStream);
    RETURN_IF(launch.stream == nullptr, CUDA_ERROR_INVALID_HANDLE);
    launch.context = GetDriver().contexts.Find(launch.stream->context_handle());
    RETURN_IF(launch.context == nullptr || !launch.context->active(), CUDA_ERROR_INVALID_HANDLE);
    RETURN_ON_ERROR(CheckNotCapturing(*launch.context, *launch.stream));
    LaunchShape shape;
    shape.grid = {params.gridDimX, params.gridDimY, params.gridDimZ};
    shape.block = {params.blockDimX, params.blockDimY, params.blockDimZ};
    shape.shared_bytes = params.sharedMemBytes;
    shape.cooperative = true;
    RETURN_ON_ERROR(KernelCommand::Make(launch.context, params.function, shape, params.kernelParams, nullptr, &launch.command));
    for (const DeviceLaunch& other : *launches) {
      RETURN_IF(&other.context->device() == &launch.context->device(), CUDA_ERROR_INVALID_DEVICE);
    }
    const CUDA_LAUNCH_PARAMS& first = list[0];
    RETURN_IF(params.gridDimX != first.gridDimX || params.gridDimY != first.gridDimY || params.gridDimZ != first.gridDimZ ||
                  params.blockDimX != first.blockDimX || params.blockDimY != first.blockDimY ||
                  params.blockDimZ != first.blockDimZ || params.sharedMemBytes != first.sharedMemBytes,
              CUDA_ERROR_INVALID_VALUE);
    RETURN_IF(!launches->empty() && launches->front().command->function()->info().name != launch.command->function()->info().name,
              CUDA_ERROR_INVALID_VALUE);
    launches->push_back(std::move(launch));
  }
  return CUDA_SUCCESS;
}

CUresult EnterFunction(CUfunction handle, FunctionPtr* function) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  return ResolveFunction(context, handle, function);
}

}  // namespace

extern "C" {

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
                        unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                        void** kernelParams, void** extra) {
  LaunchShape shape;
  shape.grid = {gridDimX, gridDimY, gridDimZ};
  shape.block = {blockDimX, blockDimY, blockDimZ};
  shape.shared_bytes = sharedMemBytes;
  return LaunchShaped(f, shape, hStream, kernelParams, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                   unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream, void** kernelParams) {
  LaunchShape shape;
  shape.grid = {gridDimX, gridDimY, gridDimZ};
  shape.block = {blockDimX, blockDimY, blockDimZ};
  shape.shared_bytes = sharedMemBytes;
  shape.cooperative = true;
  return LaunchShaped(f, shape, hStream, kernelParams, nullptr);
}

// No kernel of the emulator can wait for the grids of other devices (multi_grid_group): they are only started together.
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launchParamsList, unsigned int numDevices, unsigned int flags) {
  RETURN_ON_ERROR(CheckEntry());
  constexpr unsigned kFlags =
      CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC | CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC;
  RETURN_IF(launchParamsList == nullptr || numDevices == 0 || (flags & ~kFlags) != 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(numDevices > static_cast<unsigned>(GetDriver().device_count()), CUDA_ERROR_INVALID_VALUE);
  std::vector<DeviceLaunch> launches;
  RETURN_ON_ERROR(MakeDeviceLaunches(launchParamsList, numDevices, &launches));
  std::vector<FencePtr> before, grids;
  if ((flags & CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC) == 0) {
    for (const DeviceLaunch& launch : launches) {
      if (FencePtr tail = launch.stream->tail()) before.push_back(std::move(tail));
    }
  }
  for (const DeviceLaunch& launch : launches) grids.push_back(launch.context->Submit(launch.stream, launch.command, before));
  if ((flags & CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC) == 0) {
    for (const DeviceLaunch& launch : launches) launch.context->Submit(launch.stream, std::make_shared<EmptyCommand>(), grids);
  }
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(config == nullptr, CUDA_ERROR_INVALID_VALUE);
  LaunchShape shape;
  CUlaunchAttributeValue* updatable = nullptr;
  RETURN_ON_ERROR(ShapeOf(*config, &shape, &updatable));
  return LaunchShaped(f, shape, config->hStream, kernelParams, extra, updatable);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned int flags) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(func, &function));
  RETURN_IF(numBlocks == nullptr || blockSize <= 0 || (flags & ~CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) != 0,
            CUDA_ERROR_INVALID_VALUE);
  *numBlocks = ActiveBlocks(function->info(), blockSize, dynamicSMemSize);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* minGridSize, int* blockSize, CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                                   int blockSizeLimit, unsigned int flags) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(func, &function));
  RETURN_IF(minGridSize == nullptr || blockSize == nullptr, CUDA_ERROR_INVALID_VALUE);
  int limit = static_cast<int>(function->info().max_threads_per_block);
  if (blockSizeLimit > 0) limit = std::min(limit, blockSizeLimit);
  int best = 0, best_threads = 0, best_blocks = 0;
  for (int threads = static_cast<int>(RoundUp(static_cast<uint64_t>(limit), kWarpSize)); threads > 0; threads -= kWarpSize) {
    const int size = std::min(threads, limit);
    const size_t shared = blockSizeToDynamicSMemSize != nullptr ? blockSizeToDynamicSMemSize(size) : dynamicSMemSize;
    const int blocks = ActiveBlocks(function->info(), size, shared);
    if (blocks * size <= best_threads) continue;
    best = size;
    best_threads = blocks * size;
    best_blocks = blocks;
  }
  RETURN_IF(best == 0, CUDA_ERROR_INVALID_VALUE);
  *blockSize = best;
  *minGridSize = best_blocks * kMultiprocessors;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                          int blockSizeLimit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
                                                   blockSizeLimit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func, int numBlocks, int blockSize) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(func, &function));
  RETURN_IF(dynamicSmemSize == nullptr || numBlocks <= 0 || blockSize <= 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(ActiveBlocks(function->info(), blockSize, 0) < numBlocks, CUDA_ERROR_INVALID_VALUE);
  const int per_block =
      kSharedPerMultiprocessor / numBlocks - kReservedSharedPerBlock - static_cast<int>(function->info().static_shared_bytes);
  const int most = kSharedPerBlockOptin - static_cast<int>(function->info().static_shared_bytes);
  *dynamicSmemSize = static_cast<size_t>(std::max(0, std::min(per_block, most))) / 1024 * 1024;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int* numClusters, CUfunction func, const CUlaunchConfig* config) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(func, &function));
  RETURN_IF(numClusters == nullptr || config == nullptr, CUDA_ERROR_INVALID_VALUE);
  LaunchShape shape;
  CUlaunchAttributeValue* updatable = nullptr;
  RETURN_ON_ERROR(ShapeOf(*config, &shape, &updatable));
  const int threads = static_cast<int>(shape.block.x * shape.block.y * shape.block.z);
  const int blocks = ActiveBlocks(function->info(), threads, shape.shared_bytes) * kMultiprocessors;
  *numClusters = blocks / static_cast<int>(std::max(1u, shape.cluster.x * shape.cluster.y * shape.cluster.z));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int* clusterSize, CUfunction func, const CUlaunchConfig* config) {
  FunctionPtr function;
  RETURN_ON_ERROR(EnterFunction(func, &function));
  RETURN_IF(clusterSize == nullptr || config == nullptr, CUDA_ERROR_INVALID_VALUE);
  *clusterSize = 1;  // larger clusters do not run here
  return CUDA_SUCCESS;
}

}  // extern "C"
