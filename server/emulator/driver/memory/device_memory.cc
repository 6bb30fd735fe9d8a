#include "server/emulator/driver/memory/device_memory.h"

namespace tessera::emulator {

CUresult AllocateDeviceMemory(Context& context, uint64_t size_bytes, MemoryKind kind, bool poison, uint64_t* address) {
  const uint64_t mapped_bytes = RoundUp(size_bytes, kPageBytes);
  if (mapped_bytes < size_bytes || !context.device().Charge(mapped_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  auto allocation = std::make_shared<Allocation>();
  // A client can have other device memory somewhere else, but a module's variables are where they are.
  allocation->base = kind == MemoryKind::kGlobal ? GetDriver().memory.MapLowPages(mapped_bytes, poison)
                                                 : MemoryTable::MapPages(mapped_bytes, poison);
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

ManagedVariables::~ManagedVariables() {
  for (const uint64_t slab : slabs_) FreeDeviceMemory(slab, MemoryKind::kManaged);
}

Result<uint64_t> ManagedVariables::Place(size_t number, uint64_t size_bytes, bool* known) {
  std::lock_guard lock(mutex_);
  *known = number < places_.size();
  if (*known) return places_[number];
  const uint64_t step_bytes = RoundUp(std::max<uint64_t>(size_bytes, 1), kStepBytes);
  if (step_bytes > free_bytes_) {
    if (const Status status = AddSlab(step_bytes); !status.ok()) return status;
  }
  places_.push_back(free_);
  free_ += step_bytes;
  free_bytes_ -= step_bytes;
  return places_.back();
}

Status ManagedVariables::AddSlab(uint64_t bytes) {
  auto slab = std::make_shared<Allocation>();
  slab->mapped_bytes = slab->size_bytes = RoundUp(bytes, kPageBytes);
  slab->kind = MemoryKind::kManaged;
  Device& device = *GetDriver().device(0);
  if (!device.Charge(slab->mapped_bytes)) {
    return Status(StatusCode::kResourceExhausted, "no device memory left for a managed variable");
  }
  slab->base = GetDriver().memory.MapLowPages(slab->mapped_bytes, false);
  if (slab->base == 0) {
    device.Discharge(slab->mapped_bytes);
    return Status(StatusCode::kResourceExhausted, "no memory left for a managed variable");
  }
  GetDriver().memory.Insert(slab);
  slabs_.push_back(slab->base);
  free_ = slab->base;
  free_bytes_ = slab->mapped_bytes;
  return Status::Ok();
}

Result<uint64_t> VariableAllocator::AllocateManaged(uint64_t size_bytes, uint64_t alignment_bytes, bool* kept) {
  if (alignment_bytes > kPageBytes) return Status(StatusCode::kUnsupported, "a variable wants more than page alignment");
  return managed_->Place(managed_count_++, size_bytes, kept);
}

Result<uint64_t> VariableAllocator::Allocate(uint64_t size_bytes, uint64_t alignment_bytes) {
  if (alignment_bytes > kPageBytes) return Status(StatusCode::kUnsupported, "a variable wants more than page alignment");
  uint64_t address = 0;
  if (AllocateDeviceMemory(*context_, std::max<uint64_t>(size_bytes, 1), MemoryKind::kGlobal, false, &address) != CUDA_SUCCESS) {
    return Status(StatusCode::kResourceExhausted, "no device memory left for a module's variables");
  }
  return address;
}

// Managed variables are not freed with a module: this finds no such kind at their address.
void VariableAllocator::Free(uint64_t address) { FreeDeviceMemory(address, MemoryKind::kGlobal); }

}  // namespace tessera::emulator
