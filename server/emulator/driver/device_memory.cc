#include "server/emulator/driver/device_memory.h"

namespace tessera::emulator {

CUresult AllocateDeviceMemory(Context& context, uint64_t size_bytes, MemoryKind kind, bool poison, uint64_t* address) {
  const uint64_t mapped_bytes = RoundUp(size_bytes, kPageBytes);
  if (mapped_bytes < size_bytes || !context.device().Charge(mapped_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  auto allocation = std::make_shared<Allocation>();
  allocation->base = MemoryTable::MapPages(mapped_bytes, poison);
  if (allocation->base == 0) {
    context.device().Discharge(mapped_bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  allocation->size_bytes = size_bytes;
  allocation->mapped_bytes = mapped_bytes;
  allocation->kind = kind;
  allocation->device = context.device().number();
  allocation->context = context.owner_handle();
  GetDriver().memory.Insert(allocation);
  *address = allocation->base;
  return CUDA_SUCCESS;
}

bool FreeDeviceMemory(uint64_t address, MemoryKind kind) {
  MemoryTable& memory = GetDriver().memory;
  const AllocationPtr found = memory.Find(address);
  if (found == nullptr || found->base != address || found->kind != kind) return false;
  const AllocationPtr allocation = memory.Remove(address);
  if (allocation == nullptr) return false;
  memory.RetirePages(allocation->base, allocation->mapped_bytes);
  GetDriver().device(allocation->device)->Discharge(allocation->mapped_bytes);
  return true;
}

Result<uint64_t> VariableAllocator::Allocate(uint64_t size_bytes, uint64_t alignment_bytes, bool managed) {
  if (managed) return Status(StatusCode::kUnsupported, "the emulated device has no managed memory");
  if (alignment_bytes > kPageBytes) return Status(StatusCode::kUnsupported, "a variable wants more than page alignment");
  uint64_t address = 0;
  if (AllocateDeviceMemory(*context_, std::max<uint64_t>(size_bytes, 1), MemoryKind::kGlobal, false, &address) !=
      CUDA_SUCCESS) {
    return Status(StatusCode::kResourceExhausted, "no device memory left for a module's variables");
  }
  return address;
}

void VariableAllocator::Free(uint64_t address) { FreeDeviceMemory(address, MemoryKind::kGlobal); }

}  // namespace tessera::emulator
