// Table 1734DC26: how multiprocessors are grouped for cluster launches. On devices of compute capability 9.0 and later cuBLASLt
// chooses its kernels by it, and crashes when the table is refused.

#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "client-stub/call/call.h"
#include "client-stub/hidden_tables/cluster_maps.h"
#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/hidden_tables/table.h"
#include "client-stub/session/thread_state.h"
#include "generated/messages/service.h"

namespace tessera {
namespace {

struct ClusterMapTag {
  static constexpr const char* kName = "1734DC26";
  static constexpr size_t kWords = 17;
};

constexpr CallInfo kClusterMap{"tesseraClusterMap",
                               tesseraClusterMapRequest::kId,
                               CallInfo::Mode::kSync,
                               CallInfo::Context::kRequired,
                               CallInfo::Capture::kLegal,
                               false,
                               nullptr};

// Asks the server once for each device, since the hardware does not change.
CUresult MapOfCurrentDevice(ClusterMaps::Map* map) {
  Call call(kClusterMap, false);
  if (!call.ok()) return call.result();
  const CUdevice device = call.thread().current()->device;
  if (ClusterMaps::Process().Find(device, map)) return CUDA_SUCCESS;
  tesseraClusterMapReply reply;
  if (const CUresult result = call.Sync(tesseraClusterMapRequest{}, &reply); result != CUDA_SUCCESS) return result;
  const auto text = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  *map = {text(reply.order), text(reply.groups)};
  ClusterMaps::Process().Keep(device, *map);
  return CUDA_SUCCESS;
}

// The block comes from the C heap: driver 580.159 hands out fresh blocks at each call and keeps none of them.
uint8_t* FreshBlock(const std::string& bytes) {
  void* block = std::malloc(bytes.size());
  if (block != nullptr) std::memcpy(block, bytes.data(), bytes.size());
  return static_cast<uint8_t*>(block);
}

// Slot 4. Without a current context it returns 201.
CUresult GetMap(uint8_t** order, uint8_t** groups) {
  if (order == nullptr || groups == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ClusterMaps::Map map;
  if (const CUresult result = MapOfCurrentDevice(&map); result != CUDA_SUCCESS) return result;
  uint8_t* const first = FreshBlock(map.order);
  uint8_t* const second = FreshBlock(map.groups);
  if (first == nullptr || second == nullptr) {
    std::free(first);
    std::free(second);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *order = first;
  *groups = second;
  return CUDA_SUCCESS;
}

}  // namespace

const void* ClusterMap() {
  static HiddenTable<ClusterMapTag> table;
  static const void* const filled = &table.Set(4, &GetMap);
  return filled;
}

}  // namespace tessera
