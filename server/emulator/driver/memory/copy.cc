#include "server/emulator/driver/memory/copy.h"

#include <cstring>

namespace tessera::emulator {
namespace {

// What takes longer than a moment hands the device on to other processes: copies and sets are no work of its own.
constexpr uint64_t kMomentBytes = 64 << 10;

void LeaveDeviceFor(uint64_t bytes) {
  if (bytes > kMomentBytes) LeaveDevice();
}

struct Side {
  CUmemorytype type;
  uint64_t host, device;
  CUarray array;
  uint64_t x, y, z, pitch, height;
};

CUresult CheckDeviceRange(uint64_t address, uint64_t bytes, bool write, bool* is_host) {
  AllocationPtr found;
  if (!GetDriver().memory.Covers(address, bytes, &found)) return CUDA_ERROR_INVALID_VALUE;
  const Allocation allocation = GetDriver().memory.Snapshot(found);
  if (allocation.free_pending) return CUDA_ERROR_INVALID_VALUE;
  // Memory without any access is not even mapped; memory of another device is reached by staging.
  if (allocation.kind == MemoryKind::kMapped && (write ? allocation.write_mask : allocation.read_mask) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *is_host = allocation.is_host();
  return CUDA_SUCCESS;
}

CUresult Resolve(const Context& context, const CUDA_MEMCPY3D& copy, const Side& side, bool write,
                 CopyCommand::Endpoint* endpoint) {
  if (side.type == CU_MEMORYTYPE_ARRAY) {
    endpoint->array = GetDriver().arrays.Find(side.array);
    RETURN_IF(endpoint->array == nullptr, CUDA_ERROR_INVALID_HANDLE);
    const Array& array = *endpoint->array;
    RETURN_IF(side.x > array.row_bytes() || copy.WidthInBytes > array.row_bytes() - side.x || side.y > array.rows() ||
                  copy.Height > array.rows() - side.y || side.z > array.slices() || copy.Depth > array.slices() - side.z,
              CUDA_ERROR_INVALID_VALUE);
    endpoint->row_pitch = array.row_bytes();
    endpoint->slice_pitch = array.row_bytes() * array.rows();
    endpoint->address = array.base() + side.z * endpoint->slice_pitch + side.y * endpoint->row_pitch + side.x;
    return CUDA_SUCCESS;
  }
  RETURN_IF(side.type != CU_MEMORYTYPE_HOST && side.type != CU_MEMORYTYPE_DEVICE && side.type != CU_MEMORYTYPE_UNIFIED,
            CUDA_ERROR_INVALID_VALUE);
  const bool rows = copy.Height > 1 || copy.Depth > 1 || side.y != 0 || side.z != 0;
  RETURN_IF(rows && side.pitch < side.x + copy.WidthInBytes, CUDA_ERROR_INVALID_VALUE);
  const bool slices = copy.Depth > 1 || side.z != 0;
  RETURN_IF(slices && side.height < side.y + copy.Height, CUDA_ERROR_INVALID_VALUE);
  endpoint->row_pitch = side.pitch;
  endpoint->slice_pitch = side.pitch * side.height;
  const uint64_t base = side.type == CU_MEMORYTYPE_HOST ? side.host : side.device;
  endpoint->address = base + side.z * endpoint->slice_pitch + side.y * endpoint->row_pitch + side.x;
  if (copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0) return CUDA_SUCCESS;
  RETURN_IF(base == 0, CUDA_ERROR_INVALID_VALUE);
  const uint64_t span = (copy.Depth - 1) * endpoint->slice_pitch + (copy.Height - 1) * endpoint->row_pitch + copy.WidthInBytes;
  const AllocationPtr allocation = GetDriver().memory.Find(endpoint->address);
  if (allocation == nullptr && side.type != CU_MEMORYTYPE_DEVICE) {
    endpoint->is_host = endpoint->pageable = true;
    return CUDA_SUCCESS;
  }
  if (side.type == CU_MEMORYTYPE_HOST && allocation->is_host() && allocation->end() < endpoint->address + span) {
    endpoint->is_host = endpoint->pageable = true;  // registered only in part
    return CUDA_SUCCESS;
  }
  RETURN_ON_ERROR(CheckDeviceRange(endpoint->address, span, write, &endpoint->is_host));
  RETURN_IF(side.type == CU_MEMORYTYPE_HOST && !endpoint->is_host, CUDA_ERROR_INVALID_VALUE);
  endpoint->checked = true;
  return CUDA_SUCCESS;
}

}  // namespace

CUDA_MEMCPY3D LinearCopy(CUmemorytype to_type, uint64_t to, CUmemorytype from_type, uint64_t from, uint64_t size_bytes) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = from_type;
  copy.srcHost = reinterpret_cast<const void*>(from_type == CU_MEMORYTYPE_HOST ? from : 0);
  copy.srcDevice = from_type == CU_MEMORYTYPE_HOST ? 0 : from;
  copy.srcPitch = size_bytes;
  copy.srcHeight = 1;
  copy.dstMemoryType = to_type;
  copy.dstHost = reinterpret_cast<void*>(to_type == CU_MEMORYTYPE_HOST ? to : 0);
  copy.dstDevice = to_type == CU_MEMORYTYPE_HOST ? 0 : to;
  copy.dstPitch = size_bytes;
  copy.dstHeight = 1;
  copy.WidthInBytes = size_bytes;
  copy.Height = 1;
  copy.Depth = 1;
  return copy;
}

CUresult CopyCommand::Make(const Context& context, const CUDA_MEMCPY3D& copy, std::shared_ptr<CopyCommand>* command) {
  RETURN_IF(copy.srcLOD != 0 || copy.dstLOD != 0, CUDA_ERROR_INVALID_VALUE);
  auto made = std::make_shared<CopyCommand>();
  made->copy_ = copy;
  const Side source{copy.srcMemoryType, reinterpret_cast<uint64_t>(copy.srcHost),
                    copy.srcDevice,     copy.srcArray,
                    copy.srcXInBytes,   copy.srcY,
                    copy.srcZ,          copy.srcPitch,
                    copy.srcHeight};
  const Side destination{copy.dstMemoryType, reinterpret_cast<uint64_t>(copy.dstHost),
                         copy.dstDevice,     copy.dstArray,
                         copy.dstXInBytes,   copy.dstY,
                         copy.dstZ,          copy.dstPitch,
                         copy.dstHeight};
  RETURN_ON_ERROR(Resolve(context, copy, source, false, &made->source_));
  RETURN_ON_ERROR(Resolve(context, copy, destination, true, &made->destination_));
  *command = std::move(made);
  return CUDA_SUCCESS;
}

uint64_t CopyCommand::SpanBytes(const Endpoint& endpoint) const {
  return (copy_.Depth - 1) * endpoint.slice_pitch + (copy_.Height - 1) * endpoint.row_pitch + copy_.WidthInBytes;
}

bool CopyCommand::MayReadEarly() const {
  constexpr uint64_t kMostBytes = 24'576;
  return source_.is_host && !source_.pageable && !destination_.is_host &&
         copy_.WidthInBytes * copy_.Height * copy_.Depth <= kMostBytes;
}

void CopyCommand::StageSource() {
  if (empty()) return;
  staged_.resize(copy_.WidthInBytes * copy_.Height * copy_.Depth);
  char* to = staged_.data();
  for (uint64_t z = 0; z < copy_.Depth; ++z) {
    for (uint64_t y = 0; y < copy_.Height; ++y, to += copy_.WidthInBytes) {
      memcpy(to, reinterpret_cast<const void*>(source_.address + z * source_.slice_pitch + y * source_.row_pitch),
             copy_.WidthInBytes);
    }
  }
  source_.checked = false;
  source_.address = reinterpret_cast<uint64_t>(staged_.data());
  source_.row_pitch = copy_.WidthInBytes;
  source_.slice_pitch = copy_.WidthInBytes * copy_.Height;
}

CUresult CopyCommand::Execute(Context& context) {
  if (empty()) return CUDA_SUCCESS;
  const MemoryTable& memory = GetDriver().memory;
  if ((source_.checked && !memory.Usable(source_.address, SpanBytes(source_))) ||
      (destination_.checked && !memory.Usable(destination_.address, SpanBytes(destination_)))) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;  // freed since the call
  }
  LeaveDeviceFor(copy_.WidthInBytes * copy_.Height * copy_.Depth);
  for (uint64_t z = 0; z < copy_.Depth; ++z) {
    for (uint64_t y = 0; y < copy_.Height; ++y) {
      memmove(reinterpret_cast<void*>(destination_.address + z * destination_.slice_pitch + y * destination_.row_pitch),
              reinterpret_cast<const void*>(source_.address + z * source_.slice_pitch + y * source_.row_pitch),
              copy_.WidthInBytes);
    }
  }
  return CUDA_SUCCESS;
}

CUresult SetCommand::Make(const CUDA_MEMSET_NODE_PARAMS& set, bool check_memory, std::shared_ptr<SetCommand>* command) {
  const unsigned size = set.elementSize;
  RETURN_IF(size != 1 && size != 2 && size != 4, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(set.dst % size != 0 || (set.height > 1 && (set.pitch % size != 0 || set.pitch < set.width * size)),
            CUDA_ERROR_INVALID_VALUE);
  auto made = std::make_shared<SetCommand>();
  made->set_ = set;
  if (check_memory && !made->empty()) {
    RETURN_ON_ERROR(CheckDeviceRange(set.dst, made->SpanBytes(), true, &made->to_host_));
  }
  *command = std::move(made);
  return CUDA_SUCCESS;
}

bool SetCommand::MayInstantiate() const {
  bool is_host = false;
  return empty() || CheckDeviceRange(set_.dst, SpanBytes(), true, &is_host) == CUDA_SUCCESS;
}

uint64_t SetCommand::SpanBytes() const { return (set_.height - 1) * set_.pitch + set_.width * set_.elementSize; }

CUresult SetCommand::Execute(Context& context) {
  if (empty()) return CUDA_SUCCESS;
  if (!GetDriver().memory.Usable(set_.dst, SpanBytes())) return CUDA_ERROR_ILLEGAL_ADDRESS;
  LeaveDeviceFor(SpanBytes());
  for (uint64_t y = 0; y < set_.height; ++y) {
    const uint64_t row = set_.dst + y * set_.pitch;
    if (set_.elementSize == 1) {
      memset(reinterpret_cast<void*>(row), static_cast<int>(set_.value & 0xFF), set_.width);
    } else if (set_.elementSize == 2) {
      std::fill_n(reinterpret_cast<uint16_t*>(row), set_.width, static_cast<uint16_t>(set_.value));
    } else {
      std::fill_n(reinterpret_cast<uint32_t*>(row), set_.width, set_.value);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace tessera::emulator
