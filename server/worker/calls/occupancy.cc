// Occupancy questions whose arguments hold a callback or a launch configuration.

#include <cuda.h>

#include <vector>

#include "generated/driver_table.h"
#include "generated/messages/occupancy.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/code/launch_attributes.h"

namespace tessera {
namespace {

// The client evaluated the application's callback for every block size; the driver's callback takes no user data, so the
// table is found through the thread.
thread_local std::span<const uint64_t> shared_bytes_of_block;

size_t CUDA_CB SharedBytesOfBlock(int block_size) {
  if (block_size < 1 || static_cast<size_t>(block_size) > shared_bytes_of_block.size()) return 0;
  return shared_bytes_of_block[static_cast<size_t>(block_size) - 1];
}

template <typename Reply, typename Request, typename Ask>
void MaxPotentialBlockSize(CallContext& call, const Request& request, Ask ask) {
  CUfunction function = call.Use<CUfunction>(request.func);
  if (!call.ok()) return call.Finish(call.error());
  if (request.dynamic_shared_bytes.empty()) return call.Malformed();
  const bool has_callback = request.dynamic_shared_bytes.size() > 1;
  shared_bytes_of_block = request.dynamic_shared_bytes;
  int grid = 0;
  int block = 0;
  const CUresult result = ask(&grid, &block, function, has_callback ? SharedBytesOfBlock : nullptr,
                              has_callback ? 0 : request.dynamic_shared_bytes[0]);
  shared_bytes_of_block = {};
  Reply reply;
  reply.grid = grid;
  reply.block = block;
  call.Finish(result, reply);
}

template <typename Reply, typename Request, typename Ask>
void ClusterQuery(CallContext& call, const Request& request, Ask ask) {
  LaunchAttributes attributes;
  if (!attributes.Set(call, request.attributes)) return;
  CUfunction function = call.Use<CUfunction>(request.func);
  CUlaunchConfig config{};
  config.gridDimX = request.grid_x;
  config.gridDimY = request.grid_y;
  config.gridDimZ = request.grid_z;
  config.blockDimX = request.block_x;
  config.blockDimY = request.block_y;
  config.blockDimZ = request.block_z;
  config.sharedMemBytes = request.shared_bytes;
  config.hStream = call.UseStream(request.stream);
  config.attrs = attributes.data();
  config.numAttrs = attributes.count();
  if (!call.ok()) return call.Finish(call.error());
  int clusters = 0;
  const CUresult result = ask(&clusters, function, &config);
  Reply reply;
  reply.clusters = clusters;
  call.Finish(result, reply);
}

}  // namespace

void Do_cuOccupancyMaxPotentialBlockSize(CallContext& call, const cuOccupancyMaxPotentialBlockSizeRequest& request) {
  MaxPotentialBlockSize<cuOccupancyMaxPotentialBlockSizeReply>(
      call, request, [&](int* grid, int* block, CUfunction function, CUoccupancyB2DSize callback, size_t bytes) {
        return call.driver().cuOccupancyMaxPotentialBlockSize(grid, block, function, callback, bytes,
                                                              static_cast<int>(request.block_limit));
      });
}

void Do_cuOccupancyMaxPotentialBlockSizeWithFlags(CallContext& call,
                                                  const cuOccupancyMaxPotentialBlockSizeWithFlagsRequest& request) {
  MaxPotentialBlockSize<cuOccupancyMaxPotentialBlockSizeWithFlagsReply>(
      call, request, [&](int* grid, int* block, CUfunction function, CUoccupancyB2DSize callback, size_t bytes) {
        return call.driver().cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, callback, bytes,
                                                                       static_cast<int>(request.block_limit), request.flags);
      });
}

void Do_cuOccupancyMaxPotentialClusterSize(CallContext& call, const cuOccupancyMaxPotentialClusterSizeRequest& request) {
  ClusterQuery<cuOccupancyMaxPotentialClusterSizeReply>(
      call, request, [&](int* clusters, CUfunction function, const CUlaunchConfig* config) {
        return call.driver().cuOccupancyMaxPotentialClusterSize(clusters, function, config);
      });
}

void Do_cuOccupancyMaxActiveClusters(CallContext& call, const cuOccupancyMaxActiveClustersRequest& request) {
  ClusterQuery<cuOccupancyMaxActiveClustersReply>(call, request,
                                                  [&](int* clusters, CUfunction function, const CUlaunchConfig* config) {
                                                    return call.driver().cuOccupancyMaxActiveClusters(clusters, function, config);
                                                  });
}

}  // namespace tessera
