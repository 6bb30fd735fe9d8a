// The wire form of those parameters of graph nodes that hold handles or pointers (fields `params` of protocol/spec/graph.toml).
#pragma once

#include <cstdint>

#include "protocol/wire/handle.h"

namespace tessera {

// A kernel node. The packed parameters follow; the kernel's layout tells their size in bytes.
struct KernelNodeRecord {
  HandleId function;  // kind function; null if `kernel` is set, except in answers, which have both
  HandleId kernel;    // kind kernel
  HandleId context;   // null: the calling thread's
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  uint32_t reserved;  // 0
};
static_assert(sizeof(KernelNodeRecord) == 56);

// A memcpy node: CUDA_MEMCPY3D with handles in place of arrays.
struct MemcpyNodeRecord {
  struct End {
    uint64_t x_bytes, y, z, lod;
    uint64_t type;     // CUmemorytype
    uint64_t address;  // host or device
    HandleId array;
    uint64_t pitch, height;
  };
  End source;
  End destination;
  uint64_t width_bytes, height, depth;
  HandleId context;  // null: none was named
};
static_assert(sizeof(MemcpyNodeRecord) == 176);

// A memcpy node with one end or both in memory that only the client has. The worker builds it from two nodes: a copy between the
// other end and a shadow, which both sides share, and a host function that fills the shadow before the copy or empties it after.
// The shadow has packed rows of `width_bytes`, without gaps. If both ends are the client's, there is only the host function.
struct HostCopyNodeRecord {
  MemcpyNodeRecord seen;  // the node as the application describes it; its client addresses mean nothing to the worker
  uint64_t function;      // the client's number of the host function
  uint64_t shadow;        // address in pinned memory; 0: both ends are the client's
  uint32_t source_is_client_s;
  uint32_t destination_is_client_s;
  uint32_t pageable;  // an end is ordinary memory that is not registered
  uint32_t reserved;  // 0
};
static_assert(sizeof(HostCopyNodeRecord) == 208);

// A memset node.
struct MemsetNodeRecord {
  uint64_t address;
  uint64_t pitch;
  uint32_t value;
  uint32_t element_bytes;
  uint64_t width;  // elements
  uint64_t height;
  HandleId context;  // null: none was named
};
static_assert(sizeof(MemsetNodeRecord) == 48);

// A host node. `function` is the client's number of the host function.
struct HostNodeRecord {
  uint64_t function;
};

// A child graph node.
struct ChildNodeRecord {
  HandleId graph;
  uint32_t ownership;  // CUgraphChildGraphNodeOwnership
  uint32_t reserved;   // 0
};

// An event record or event wait node.
struct EventNodeRecord {
  HandleId event;
};

// A batch memory operation node. `count` CUstreamBatchMemOpParams follow.
struct MemOpNodeRecord {
  HandleId context;  // null: none was named
  uint32_t count;
  uint32_t flags;
};

// A memory allocation node: CUDA_MEM_ALLOC_NODE_PARAMS with the fields of CUmemPoolProps that have a meaning. `access_count`
// CUmemAccessDesc follow.
struct AllocNodeRecord {
  uint32_t allocation_type;  // CUmemAllocationType
  uint32_t handle_types;     // CUmemAllocationHandleType
  uint32_t location_type;    // CUmemLocationType
  int32_t location;
  uint64_t pool_bytes_max;
  uint32_t usage;
  uint32_t reserved;  // 0
  uint64_t bytes;
  uint64_t access_count;
  uint64_t address;  // set in answers only
};
static_assert(sizeof(AllocNodeRecord) == 56);

// A memory free node.
struct FreeNodeRecord {
  uint64_t address;
};

// A conditional node. The answer has the graphs of its bodies.
struct ConditionalNodeRecord {
  uint64_t handle;  // CUgraphConditionalHandle, the driver's own value, since kernels use it
  HandleId context;
  uint32_t type;  // CUgraphConditionalNodeType
  uint32_t size;  // number of bodies
};

}  // namespace tessera
