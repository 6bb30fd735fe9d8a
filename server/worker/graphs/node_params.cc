#include "server/worker/graphs/node_params.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "generated/driver_table.h"
#include "protocol/wire/graph_params.h"
#include "server/driver/missing_entry.h"
#include "server/worker/code/layout_table.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/stream_copy.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

template <typename Record>
std::vector<std::byte> BytesOf(const Record& record) {
  const auto bytes = std::as_bytes(std::span(&record, 1));
  return {bytes.begin(), bytes.end()};
}

// The record, and the elements behind it where there may be any. False: the call has ended.
template <typename Record, typename Element = std::byte>
bool Split(CallContext& call, std::span<const std::byte> params, Record* record, std::vector<Element>* elements = nullptr) {
  const size_t rest = params.size() < sizeof(Record) ? 0 : params.size() - sizeof(Record);
  if (params.size() < sizeof(Record) || rest % sizeof(Element) != 0 || (rest != 0 && elements == nullptr)) {
    call.Malformed();
    return false;
  }
  std::memcpy(record, params.data(), sizeof(Record));
  if (elements == nullptr || rest == 0) return true;
  elements->resize(rest / sizeof(Element));
  std::memcpy(elements->data(), params.data() + sizeof(Record), rest);
  return true;
}

// The buffer behind the CU_LAUNCH_PARAM_* list of a node that was made with `extra`.
std::span<const std::byte> ExtraBuffer(void* const* extra) {
  const std::byte* buffer = nullptr;
  size_t bytes = 0;
  for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<const std::byte*>(extra[i + 1]);
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<const size_t*>(extra[i + 1]);
  }
  return {buffer, buffer == nullptr ? 0 : bytes};
}

// The bytes that one end of the copy can touch, from its address on. Saturates.
uint64_t Extent(const MemcpyNodeRecord& record, const MemcpyNodeRecord::End& end) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const auto multiply = [](uint64_t a, uint64_t b) { return a != 0 && b > kMax / a ? kMax : a * b; };
  const auto add = [](uint64_t a, uint64_t b) { return a > kMax - b ? kMax : a + b; };
  if (record.width_bytes == 0 || record.height == 0 || record.depth == 0) return 0;
  const uint64_t rows = std::max(end.height, record.height);
  uint64_t row = add(multiply(add(end.z, record.depth - 1), rows), add(end.y, record.height - 1));
  return add(multiply(row, end.pitch), add(end.x_bytes, record.width_bytes));
}

MemcpyNodeRecord::End EncodeEnd(CallContext& call, size_t x_bytes, size_t y, size_t z, size_t lod, CUmemorytype type,
                                const void* host, CUdeviceptr device, CUarray array, size_t pitch, size_t height) {
  MemcpyNodeRecord::End end{};
  end = {x_bytes, y, z, lod, static_cast<uint64_t>(type), 0, HandleId(), pitch, height};
  if (type == CU_MEMORYTYPE_HOST) end.address = reinterpret_cast<uint64_t>(host);
  if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED) end.address = device;
  if (type == CU_MEMORYTYPE_ARRAY) end.array = call.Known(HandleKind::kArray, array);
  return end;
}

bool MayUse(CallContext& call, const MemcpyNodeRecord& record, const MemcpyNodeRecord::End& end) {
  if (end.type == CU_MEMORYTYPE_ARRAY) return true;
  return call.worker().parts().memory().MayCopy(end.address, Extent(record, end));
}

}  // namespace

bool KernelNodeParams::Decode(CallContext& call, std::span<const std::byte> params) {
  KernelNodeRecord record;
  if (!Split(call, params, &record, &packed_)) return false;
  const HandleId handle = record.function.is_null() ? record.kernel : record.function;
  if (record.function.is_null()) {
    params_.kern = call.Use<CUkernel>(record.kernel);
  } else {
    params_.func = call.Use<CUfunction>(record.function);
  }
  params_.ctx = call.Use<CUcontext>(record.context);
  if (!call.ok()) return false;
  CUresult error = CUDA_SUCCESS;
  const KernelLayout* layout = call.worker().parts().layouts().Find(handle, &error);
  if (layout == nullptr) {
    call.Fail(error);
    return false;
  }
  if (packed_.size() != layout->bytes) {
    call.Malformed();
    return false;
  }
  for (size_t i = 0; i < layout->offsets_and_sizes.size(); i += 2) {
    pointers_.push_back(packed_.data() + layout->offsets_and_sizes[i]);
  }
  params_.gridDimX = record.grid[0];
  params_.gridDimY = record.grid[1];
  params_.gridDimZ = record.grid[2];
  params_.blockDimX = record.block[0];
  params_.blockDimY = record.block[1];
  params_.blockDimZ = record.block[2];
  params_.sharedMemBytes = record.shared_bytes;
  params_.kernelParams = pointers_.empty() ? nullptr : pointers_.data();
  return true;
}

bool KernelNodeParams::GetV1(CUDA_KERNEL_NODE_PARAMS_v1* params) const {
  if (params_.func == nullptr) return false;
  *params = {params_.func,      params_.gridDimX,  params_.gridDimY,       params_.gridDimZ,     params_.blockDimX,
             params_.blockDimY, params_.blockDimZ, params_.sharedMemBytes, params_.kernelParams, nullptr};
  return true;
}

CUresult EncodeKernelNode(CallContext& call, CUgraphNode node, std::vector<std::byte>* params) {
  const DriverTable& driver = call.driver();
  CUDA_KERNEL_NODE_PARAMS node_params{};
  if (driver.cuGraphKernelNodeGetParams_v2 != nullptr) {
    const CUresult result = driver.cuGraphKernelNodeGetParams_v2(node, &node_params);
    if (result != CUDA_SUCCESS) return result;
  } else if (driver.cuGraphKernelNodeGetParams != nullptr) {
    CUDA_KERNEL_NODE_PARAMS_v1 old{};
    const CUresult result = driver.cuGraphKernelNodeGetParams(node, &old);
    if (result != CUDA_SUCCESS) return result;
    node_params = {old.func,      old.gridDimX,       old.gridDimY,     old.gridDimZ, old.blockDimX, old.blockDimY,
                   old.blockDimZ, old.sharedMemBytes, old.kernelParams, old.extra,    nullptr,       nullptr};
  } else {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  KernelNodeRecord record{};
  record.function = call.Known(HandleKind::kFunction, node_params.func);
  record.kernel = call.Known(HandleKind::kKernel, node_params.kern);
  record.context = call.Known(HandleKind::kContext, node_params.ctx);
  record.grid[0] = node_params.gridDimX;
  record.grid[1] = node_params.gridDimY;
  record.grid[2] = node_params.gridDimZ;
  record.block[0] = node_params.blockDimX;
  record.block[1] = node_params.blockDimY;
  record.block[2] = node_params.blockDimZ;
  record.shared_bytes = node_params.sharedMemBytes;
  *params = BytesOf(record);
  CUresult error = CUDA_SUCCESS;
  const HandleId handle = record.function.is_null() ? record.kernel : record.function;
  const KernelLayout* layout = call.worker().parts().layouts().Find(handle, &error);
  if (layout == nullptr) return error;
  std::vector<std::byte> packed(layout->bytes);
  if (node_params.kernelParams != nullptr) {
    for (size_t i = 0; i < layout->offsets_and_sizes.size(); i += 2) {
      std::memcpy(packed.data() + layout->offsets_and_sizes[i], node_params.kernelParams[i / 2],
                  layout->offsets_and_sizes[i + 1]);
    }
  } else if (node_params.extra != nullptr) {
    const auto buffer = ExtraBuffer(node_params.extra);
    std::copy_n(buffer.begin(), std::min(buffer.size(), packed.size()), packed.begin());
  } else if (layout->bytes != 0) {
    return CUDA_ERROR_UNKNOWN;
  }
  params->insert(params->end(), packed.begin(), packed.end());
  return CUDA_SUCCESS;
}

bool DecodeMemcpyNode(CallContext& call, std::span<const std::byte> params, CUDA_MEMCPY3D* copy, CUcontext* context) {
  MemcpyNodeRecord record;
  if (params.size() != sizeof(record)) {
    call.Malformed();
    return false;
  }
  std::memcpy(&record, params.data(), sizeof(record));
  if (!MayUse(call, record, record.source) || !MayUse(call, record, record.destination)) {
    call.Fail(CUDA_ERROR_INVALID_VALUE);
    return false;
  }
  *copy = {};
  copy->srcXInBytes = record.source.x_bytes;
  copy->srcY = record.source.y;
  copy->srcZ = record.source.z;
  copy->srcLOD = record.source.lod;
  copy->srcMemoryType = static_cast<CUmemorytype>(record.source.type);
  copy->srcHost = reinterpret_cast<const void*>(record.source.address);
  copy->srcDevice = record.source.address;
  copy->srcArray = call.Use<CUarray>(record.source.array);
  copy->srcPitch = record.source.pitch;
  copy->srcHeight = record.source.height;
  copy->dstXInBytes = record.destination.x_bytes;
  copy->dstY = record.destination.y;
  copy->dstZ = record.destination.z;
  copy->dstLOD = record.destination.lod;
  copy->dstMemoryType = static_cast<CUmemorytype>(record.destination.type);
  copy->dstHost = reinterpret_cast<void*>(record.destination.address);
  copy->dstDevice = record.destination.address;
  copy->dstArray = call.Use<CUarray>(record.destination.array);
  copy->dstPitch = record.destination.pitch;
  copy->dstHeight = record.destination.height;
  copy->WidthInBytes = record.width_bytes;
  copy->Height = record.height;
  copy->Depth = record.depth;
  *context = call.Use<CUcontext>(record.context);
  return call.ok();
}

void EncodeMemcpyNode(CallContext& call, const CUDA_MEMCPY3D& copy, std::vector<std::byte>* params) {
  MemcpyNodeRecord record{};
  record.source = EncodeEnd(call, copy.srcXInBytes, copy.srcY, copy.srcZ, copy.srcLOD, copy.srcMemoryType, copy.srcHost,
                            copy.srcDevice, copy.srcArray, copy.srcPitch, copy.srcHeight);
  record.destination = EncodeEnd(call, copy.dstXInBytes, copy.dstY, copy.dstZ, copy.dstLOD, copy.dstMemoryType, copy.dstHost,
                                 copy.dstDevice, copy.dstArray, copy.dstPitch, copy.dstHeight);
  record.width_bytes = copy.WidthInBytes;
  record.height = copy.Height;
  record.depth = copy.Depth;
  *params = BytesOf(record);
}

bool DecodeMemsetNode(CallContext& call, std::span<const std::byte> params, CUDA_MEMSET_NODE_PARAMS* set, CUcontext* context) {
  MemsetNodeRecord record;
  if (!Split(call, params, &record)) return false;
  *context = call.Use<CUcontext>(record.context);
  uint64_t width_bytes = 0;
  Range extent;
  if (__builtin_mul_overflow(record.width, record.element_bytes, &width_bytes) ||
      !ExtentOf(record.address, record.pitch, 1, width_bytes, record.height, 1, &extent) ||
      !call.worker().parts().memory().MayCopy(extent.base, extent.bytes)) {
    call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  *set = {record.address, record.pitch, record.value, record.element_bytes, record.width, record.height};
  return call.ok();
}

CUresult EncodeMemsetNode(CallContext& call, CUgraphNode node, std::vector<std::byte>* params) {
  if (call.driver().cuGraphMemsetNodeGetParams == nullptr) return MissingEntry("cuGraphMemsetNodeGetParams");
  CUDA_MEMSET_NODE_PARAMS set{};
  const CUresult result = call.driver().cuGraphMemsetNodeGetParams(node, &set);
  *params = BytesOf(MemsetNodeRecord{set.dst, set.pitch, set.value, set.elementSize, set.width, set.height, HandleId()});
  return result;
}

bool MemOpNodeParams::Decode(CallContext& call, std::span<const std::byte> params) {
  MemOpNodeRecord record;
  if (!Split(call, params, &record, &operations_)) return false;
  if (operations_.size() != record.count) {
    call.Malformed();
    return false;
  }
  SessionMemory& memory = call.worker().parts().memory();
  for (const CUstreamBatchMemOpParams& operation : operations_) {
    switch (operation.operation) {  // where the wait and the write forms lie alike
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        if (!memory.MayName(operation.waitValue.address, 4)) call.Fail(CUDA_ERROR_INVALID_VALUE);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        if (!memory.MayName(operation.waitValue.address, 8)) call.Fail(CUDA_ERROR_INVALID_VALUE);
        break;
      case CU_STREAM_MEM_OP_BARRIER:
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: break;
      default: call.Fail(CUDA_ERROR_INVALID_VALUE);
    }
  }
  params_ = {call.Use<CUcontext>(record.context), record.count, operations_.data(), record.flags};
  return call.ok();
}

CUresult EncodeMemOpNode(CallContext& call, CUgraphNode node, std::vector<std::byte>* params) {
  if (call.driver().cuGraphBatchMemOpNodeGetParams == nullptr) return MissingEntry("cuGraphBatchMemOpNodeGetParams");
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch{};
  const CUresult result = call.driver().cuGraphBatchMemOpNodeGetParams(node, &batch);
  if (result != CUDA_SUCCESS) return result;
  *params = BytesOf(MemOpNodeRecord{call.Known(HandleKind::kContext, batch.ctx), batch.count, batch.flags});
  const auto operations = std::as_bytes(std::span(batch.paramArray, batch.count));
  params->insert(params->end(), operations.begin(), operations.end());
  return CUDA_SUCCESS;
}

bool AllocNodeParams::Decode(CallContext& call, std::span<const std::byte> params) {
  AllocNodeRecord record;
  if (!Split(call, params, &record, &access_)) return false;
  if (access_.size() != record.access_count) {
    call.Malformed();
    return false;
  }
  CUmemPoolProps pool{};
  pool.allocType = static_cast<CUmemAllocationType>(record.allocation_type);
  pool.handleTypes = static_cast<CUmemAllocationHandleType>(record.handle_types);
  pool.location = {static_cast<CUmemLocationType>(record.location_type), record.location};
  pool.maxSize = record.pool_bytes_max;
  pool.usage = static_cast<unsigned short>(record.usage);
  params_ = {pool, access_.empty() ? nullptr : access_.data(), access_.size(), record.bytes, 0};
  return true;
}

CUresult EncodeAllocNode(CallContext& call, CUgraphNode node, std::vector<std::byte>* params) {
  if (call.driver().cuGraphMemAllocNodeGetParams == nullptr) return MissingEntry("cuGraphMemAllocNodeGetParams");
  CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
  const CUresult result = call.driver().cuGraphMemAllocNodeGetParams(node, &alloc);
  if (result != CUDA_SUCCESS) return result;
  const size_t access_count = alloc.accessDescs == nullptr ? 0 : alloc.accessDescCount;
  const CUmemPoolProps& pool = alloc.poolProps;
  *params = BytesOf(AllocNodeRecord{static_cast<uint32_t>(pool.allocType), static_cast<uint32_t>(pool.handleTypes),
                                    static_cast<uint32_t>(pool.location.type), pool.location.id, pool.maxSize, pool.usage, 0,
                                    alloc.bytesize, access_count, alloc.dptr});
  const auto access = std::as_bytes(std::span(alloc.accessDescs, access_count));
  params->insert(params->end(), access.begin(), access.end());
  return CUDA_SUCCESS;
}

}  // namespace tessera
