// Occupancy of kernels: asked of the server's driver once per question, then answered from the kernel's query cache.

#include <cuda.h>

#include <string>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/call/describe_function.h"
#include "client-stub/code/function_info.h"
#include "client-stub/code/kernel_params.h"
#include "client-stub/session/client.h"
#include "generated/client_custom.h"
#include "generated/messages/occupancy.h"

namespace tessera {
namespace {

constexpr int kBlockSizeMax = 1024;  // threads of a block on every device (CUDA programming guide, technical specifications)

}  // namespace

CUresult Custom_cuOccupancyMaxActiveBlocksPerMultiprocessor(Call& call, int* numBlocks, CUfunction func, int blockSize,
                                                            size_t dynamicSMemSize) {
  if (!call.ok()) return call.result();
  if (numBlocks == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  FunctionInfo* function = DescribeFunction(call, func);
  if (function == nullptr) return call.result();
  const QueryCache::Key key{call.info().id, {blockSize, static_cast<int64_t>(dynamicSMemSize)}};
  if (const auto known = function->shared->queries.Find(key)) {
    *numBlocks = static_cast<int>(*known);
    return CUDA_SUCCESS;
  }
  cuOccupancyMaxActiveBlocksPerMultiprocessorRequest request;
  request.func = function->handle;
  request.blockSize = blockSize;
  request.dynamicSMemSize = dynamicSMemSize;
  cuOccupancyMaxActiveBlocksPerMultiprocessorReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result != CUDA_SUCCESS) return result;
  function->shared->queries.Insert(key, reply.numBlocks);
  *numBlocks = reply.numBlocks;
  return CUDA_SUCCESS;
}

CUresult Custom_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(Call& call, int* numBlocks, CUfunction func, int blockSize,
                                                                     size_t dynamicSMemSize, unsigned int flags) {
  if (!call.ok()) return call.result();
  if (numBlocks == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  FunctionInfo* function = DescribeFunction(call, func);
  if (function == nullptr) return call.result();
  const QueryCache::Key key{call.info().id, {blockSize, static_cast<int64_t>(dynamicSMemSize), flags}};
  if (const auto known = function->shared->queries.Find(key)) {
    *numBlocks = static_cast<int>(*known);
    return CUDA_SUCCESS;
  }
  cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlagsRequest request;
  request.func = function->handle;
  request.blockSize = blockSize;
  request.dynamicSMemSize = dynamicSMemSize;
  request.flags = flags;
  cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlagsReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result != CUDA_SUCCESS) return result;
  function->shared->queries.Insert(key, reply.numBlocks);
  *numBlocks = reply.numBlocks;
  return CUDA_SUCCESS;
}

CUresult Custom_cuOccupancyAvailableDynamicSMemPerBlock(Call& call, size_t* dynamicSmemSize, CUfunction func, int numBlocks,
                                                        int blockSize) {
  if (!call.ok()) return call.result();
  if (dynamicSmemSize == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  FunctionInfo* function = DescribeFunction(call, func);
  if (function == nullptr) return call.result();
  const QueryCache::Key key{call.info().id, {numBlocks, blockSize}};
  if (const auto known = function->shared->queries.Find(key)) {
    *dynamicSmemSize = static_cast<size_t>(*known);
    return CUDA_SUCCESS;
  }
  cuOccupancyAvailableDynamicSMemPerBlockRequest request;
  request.func = function->handle;
  request.numBlocks = numBlocks;
  request.blockSize = blockSize;
  cuOccupancyAvailableDynamicSMemPerBlockReply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result != CUDA_SUCCESS) return result;
  function->shared->queries.Insert(key, static_cast<int64_t>(reply.dynamicSmemSize));
  *dynamicSmemSize = reply.dynamicSmemSize;
  return CUDA_SUCCESS;
}

namespace {

// The application's callback runs here, for every block size, since
// the driver that would ask for some of them runs in the server.
template <typename Request, typename Reply>
CUresult MaxPotentialBlockSize(Call& call, int* minGridSize, int* blockSize, CUfunction func, CUoccupancyB2DSize shared_of_block,
                               size_t dynamicSMemSize, int blockSizeLimit, unsigned flags) {
  if (minGridSize == nullptr || blockSize == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  FunctionInfo* function = DescribeFunction(call, func);
  if (function == nullptr) return call.result();
  std::vector<uint64_t> shared_bytes;
  if (shared_of_block == nullptr) {
    shared_bytes.push_back(dynamicSMemSize);
  } else {
    for (int block = 1; block <= kBlockSizeMax; ++block) shared_bytes.push_back(shared_of_block(block));
  }
  Request request;
  request.func = function->handle;
  request.dynamic_shared_bytes.Borrow(shared_bytes);
  request.block_limit = blockSizeLimit;
  request.flags = flags;
  Reply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result != CUDA_SUCCESS) return result;
  *minGridSize = reply.grid;
  *blockSize = reply.block;
  return CUDA_SUCCESS;
}

// The launch configuration of a cluster query as bytes; launch attributes of such a query carry no handles. The stream and
// its context count as well: a green context has fewer multiprocessors.
std::string ConfigurationBytes(const Call& call, const CUlaunchConfig& config) {
  const uint64_t numbers[] = {
      config.gridDimX,       config.gridDimY,  config.gridDimZ,       config.blockDimX,
      config.blockDimY,      config.blockDimZ, config.sharedMemBytes, reinterpret_cast<uint64_t>(config.hStream),
      call.context().value()};
  std::string bytes(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  return bytes.append(reinterpret_cast<const char*>(config.attrs), config.numAttrs * sizeof(CUlaunchAttribute));
}

template <typename Request, typename Reply>
CUresult ClusterQuery(Call& call, int* answer, CUfunction func, const CUlaunchConfig* config) {
  if (answer == nullptr || config == nullptr || (config->numAttrs > 0 && config->attrs == nullptr)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  FunctionInfo* function = DescribeFunction(call, func);
  if (function == nullptr) return call.result();
  const QueryCache::Key key{call.info().id, {}, ConfigurationBytes(call, *config)};
  if (const auto known = function->shared->queries.Find(key)) {
    *answer = static_cast<int>(*known);
    return CUDA_SUCCESS;
  }
  Request request;
  request.func = function->handle;
  request.grid_x = config->gridDimX;
  request.grid_y = config->gridDimY;
  request.grid_z = config->gridDimZ;
  request.block_x = config->blockDimX;
  request.block_y = config->blockDimY;
  request.block_z = config->blockDimZ;
  request.shared_bytes = config->sharedMemBytes;
  request.stream = call.UseStream(config->hStream);
  if (!call.ok()) return call.result();
  request.attributes = std::as_bytes(std::span(config->attrs, config->numAttrs));
  Reply reply;
  const CUresult result = call.Sync(request, &reply);
  if (result != CUDA_SUCCESS) return result;
  function->shared->queries.Insert(key, reply.clusters);
  *answer = reply.clusters;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Custom_cuOccupancyMaxPotentialBlockSize(Call& call, int* minGridSize, int* blockSize, CUfunction func,
                                                 CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                                 int blockSizeLimit) {
  if (!call.ok()) return call.result();
  return MaxPotentialBlockSize<cuOccupancyMaxPotentialBlockSizeRequest, cuOccupancyMaxPotentialBlockSizeReply>(
      call, minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, 0);
}

CUresult Custom_cuOccupancyMaxPotentialBlockSizeWithFlags(Call& call, int* minGridSize, int* blockSize, CUfunction func,
                                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                                          int blockSizeLimit, unsigned int flags) {
  if (!call.ok()) return call.result();
  return MaxPotentialBlockSize<cuOccupancyMaxPotentialBlockSizeWithFlagsRequest, cuOccupancyMaxPotentialBlockSizeWithFlagsReply>(
      call, minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, flags);
}

CUresult Custom_cuOccupancyMaxPotentialClusterSize(Call& call, int* clusterSize, CUfunction func, const CUlaunchConfig* config) {
  if (!call.ok()) return call.result();
  return ClusterQuery<cuOccupancyMaxPotentialClusterSizeRequest, cuOccupancyMaxPotentialClusterSizeReply>(call, clusterSize, func,
                                                                                                          config);
}

CUresult Custom_cuOccupancyMaxActiveClusters(Call& call, int* numClusters, CUfunction func, const CUlaunchConfig* config) {
  if (!call.ok()) return call.result();
  return ClusterQuery<cuOccupancyMaxActiveClustersRequest, cuOccupancyMaxActiveClustersReply>(call, numClusters, func, config);
}

}  // namespace tessera
