// Virtual memory management: reserved addresses, physical memory, mappings and access.
// Physical memory is a memfd, mapped shared wherever it is mapped, so several mappings of it are the same bytes.
// Source: CUDA driver API, "Virtual Memory Management".
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "protocol/base/unique_fd.h"
#include "server/emulator/driver/memory/device_memory.h"

namespace tessera::emulator {

constexpr uint64_t kGranularity = 2ull << 20;
// In units of this a reservation is placed where it wants to be; smaller ones come out of blocks that are in use. As
// driver 580.
constexpr uint64_t kPlacedUnit = 32ull << 20;
constexpr uint64_t kUserEnd = (uint64_t{1} << 47) - 4096;

class PhysicalMemory {
 public:
  PhysicalMemory(UniqueFd fd, uint64_t size_bytes, const CUmemAllocationProp& properties)
      : fd_(std::move(fd)), size_bytes_(size_bytes), properties_(properties) {}
  ~PhysicalMemory() { GetDriver().device(properties_.location.id)->Discharge(size_bytes_); }
  int fd() const { return fd_.get(); }
  uint64_t size_bytes() const { return size_bytes_; }
  const CUmemAllocationProp& properties() const { return properties_; }
  std::atomic<int> references{1};  // handles that cuMemRelease will give up
  uint64_t handle = 0;

 private:
  const UniqueFd fd_;
  const uint64_t size_bytes_;
  const CUmemAllocationProp properties_;
};
using PhysicalPtr = std::shared_ptr<PhysicalMemory>;

namespace {

using AddressSpace = Driver::AddressSpace;
AddressSpace& Space() { return GetDriver().address_space; }

CUresult CheckProperties(const CUmemAllocationProp* properties) {
  RETURN_IF(properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
  RETURN_IF(GetDriver().device(properties->location.id) == nullptr, CUDA_ERROR_INVALID_DEVICE);
  RETURN_IF((properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0, CUDA_ERROR_NOT_SUPPORTED);
  return CUDA_SUCCESS;
}

CUresult FindPhysical(CUmemGenericAllocationHandle handle, PhysicalPtr* physical) {
  RETURN_ON_ERROR(CheckEntry());
  *physical = GetDriver().physical.Find(handle);
  return *physical != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// In one reservation, or in some that follow each other.
bool InsideReservations(const AddressSpace& space, uint64_t address, uint64_t size_bytes) {
  if (address + size_bytes < address) return false;
  auto range = space.reserved.upper_bound(address);
  if (range == space.reserved.begin() || std::prev(range)->first + std::prev(range)->second <= address) return false;
  uint64_t end = std::prev(range)->first + std::prev(range)->second;
  for (; end < address + size_bytes; ++range) {
    if (range == space.reserved.end() || range->first != end) return false;
    end += range->second;
  }
  return true;
}

// The allocations that make up exactly [address, address + size); empty when they do not.
std::vector<AllocationPtr> MappingsOf(uint64_t address, uint64_t size_bytes) {
  std::vector<AllocationPtr> mappings;
  for (uint64_t at = address; at < address + size_bytes;) {
    AllocationPtr mapping = GetDriver().memory.Find(at);
    if (mapping == nullptr || mapping->kind != MemoryKind::kMapped || mapping->base != at ||
        mapping->end() > address + size_bytes) {
      return {};
    }
    at = mapping->end();
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

}  // namespace
}  // namespace tessera::emulator

using namespace tessera::emulator;
using tessera::UniqueFd;

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(granularity == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
            CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(CheckProperties(prop));
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(ptr == nullptr || size == 0 || size % kGranularity != 0 || flags != 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF((alignment & (alignment - 1)) != 0 || alignment > uint64_t{1} << 61, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(addr % kGranularity != 0 || (alignment != 0 && addr % alignment != 0), CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(size > kUserEnd || alignment >= kUserEnd || addr > kUserEnd - size, CUDA_ERROR_OUT_OF_MEMORY);
  const uint64_t align = std::max<uint64_t>(alignment, kGranularity);
  void* base = MAP_FAILED;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (addr != 0 && size >= kPlacedUnit) {
    const uint64_t wanted = RoundUp(addr, kPlacedUnit);
    base = mmap(reinterpret_cast<void*>(wanted), size, PROT_NONE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
    if (base != MAP_FAILED && reinterpret_cast<uint64_t>(base) != wanted) {
      munmap(base, size);
      base = MAP_FAILED;
    }
  }
  if (base == MAP_FAILED) {
    // The wished-for place is only a hint.
    void* wide = mmap(nullptr, size + align, PROT_NONE, kFlags, -1, 0);
    RETURN_IF(wide == MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    const uint64_t start = reinterpret_cast<uint64_t>(wide);
    const uint64_t aligned = RoundUp(start, align);
    if (aligned != start) munmap(wide, aligned - start);
    munmap(reinterpret_cast<void*>(aligned + size), start + align - aligned);
    base = reinterpret_cast<void*>(aligned);
  }
  std::lock_guard lock(Space().mutex);
  Space().reserved[reinterpret_cast<uint64_t>(base)] = size;
  *ptr = reinterpret_cast<CUdeviceptr>(base);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  RETURN_ON_ERROR(CheckEntry());
  std::lock_guard lock(Space().mutex);
  auto found = Space().reserved.find(ptr);
  RETURN_IF(found == Space().reserved.end() || found->second != size, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(GetDriver().memory.Overlaps(ptr, size), CUDA_ERROR_INVALID_VALUE);
  Space().reserved.erase(found);
  munmap(reinterpret_cast<void*>(ptr), size);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(handle == nullptr || size == 0 || size % kGranularity != 0 || flags != 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_ON_ERROR(CheckProperties(prop));
  Device* device = GetDriver().device(prop->location.id);
  RETURN_IF(!device->Charge(size), CUDA_ERROR_OUT_OF_MEMORY);
  UniqueFd fd(memfd_create("tessera-emulated-memory", MFD_CLOEXEC));
  void* whole = MAP_FAILED;
  if (fd.valid() && ftruncate(fd.get(), static_cast<off_t>(size)) == 0) {
    whole = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  }
  if (whole == MAP_FAILED) {
    device->Discharge(size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  MemoryTable::Poison(whole, size);
  munmap(whole, size);
  auto physical = std::make_shared<PhysicalMemory>(std::move(fd), size, *prop);
  physical->handle = GetDriver().physical.Mint();
  GetDriver().physical.Put(physical->handle, physical);
  *handle = physical->handle;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  PhysicalPtr physical;
  RETURN_ON_ERROR(FindPhysical(handle, &physical));
  // Mappings keep the memory; the handle is gone once every reference is.
  if (physical->references.fetch_sub(1) == 1) GetDriver().physical.Remove(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
  PhysicalPtr physical;
  RETURN_ON_ERROR(FindPhysical(handle, &physical));
  RETURN_IF(size == 0 || size % kGranularity != 0 || ptr % kGranularity != 0 || offset != 0 || flags != 0 ||
                size > physical->size_bytes(),
            CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(Space().mutex);
  RETURN_IF(!InsideReservations(Space(), ptr, size) || GetDriver().memory.Overlaps(ptr, size), CUDA_ERROR_INVALID_VALUE);
  auto allocation = std::make_shared<Allocation>();
  allocation->base = ptr;
  allocation->size_bytes = allocation->mapped_bytes = size;
  allocation->kind = MemoryKind::kMapped;
  allocation->device = physical->properties().location.id;
  allocation->owner = handle;
  RETURN_IF(mmap(reinterpret_cast<void*>(ptr), size, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->fd(), 0) == MAP_FAILED,
            CUDA_ERROR_OUT_OF_MEMORY);
  Space().mapped[ptr] = physical;
  GetDriver().memory.Insert(allocation);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(size == 0 || size % kGranularity != 0 || ptr % kGranularity != 0, CUDA_ERROR_INVALID_VALUE);
  // Where it begins is reserved; there and beyond may be addresses where nothing is mapped.
  std::vector<AllocationPtr> mappings;
  {
    std::lock_guard lock(Space().mutex);
    RETURN_IF(ptr + size < ptr || !InsideReservations(Space(), ptr, 1), CUDA_ERROR_INVALID_VALUE);
    for (auto it = Space().mapped.lower_bound(ptr); it != Space().mapped.end() && it->first < ptr + size; ++it) {
      mappings.push_back(GetDriver().memory.Find(it->first));
      RETURN_IF(mappings.back() == nullptr || mappings.back()->end() > ptr + size, CUDA_ERROR_INVALID_VALUE);
    }
    const AllocationPtr first = GetDriver().memory.Find(ptr);
    RETURN_IF(first != nullptr && first->base != ptr, CUDA_ERROR_INVALID_VALUE);  // part of a mapping
  }
  // Natively unmapping waits for the devices.
  for (const ContextPtr& context : GetDriver().contexts.All()) {
    if (context->active()) context->Synchronize();
  }
  std::lock_guard lock(Space().mutex);
  for (const AllocationPtr& mapping : mappings) {
    RETURN_IF(GetDriver().memory.Remove(mapping->base) == nullptr, CUDA_ERROR_INVALID_VALUE);
    Space().mapped.erase(mapping->base);
    void* const unmapped = mmap(reinterpret_cast<void*>(mapping->base), mapping->size_bytes, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    RETURN_IF(unmapped == MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(desc == nullptr || count == 0, CUDA_ERROR_INVALID_VALUE);
  const std::vector<AllocationPtr> mappings = MappingsOf(ptr, size);
  RETURN_IF(mappings.empty(), CUDA_ERROR_INVALID_VALUE);
  for (size_t i = 0; i < count; ++i) {
    RETURN_IF(desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    RETURN_IF(GetDriver().device(desc[i].location.id) == nullptr, CUDA_ERROR_INVALID_DEVICE);
    RETURN_IF(desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
                  desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
              CUDA_ERROR_INVALID_VALUE);
  }
  for (const AllocationPtr& mapping : mappings) {
    int protection = PROT_NONE;
    GetDriver().memory.Update(mapping->base, [&](Allocation& changed) {
      for (size_t i = 0; i < count; ++i) {
        const uint32_t bit = 1u << desc[i].location.id;
        changed.read_mask &= ~bit;
        changed.write_mask &= ~bit;
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) changed.read_mask |= bit;
        if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) changed.write_mask |= bit;
      }
      if (changed.read_mask != 0) protection |= PROT_READ;
      if (changed.write_mask != 0) protection |= PROT_WRITE;
    });
    mprotect(reinterpret_cast<void*>(mapping->base), mapping->size_bytes, protection);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
                GetDriver().device(location->id) == nullptr,
            CUDA_ERROR_INVALID_VALUE);
  const AllocationPtr found = GetDriver().memory.Find(ptr);
  RETURN_IF(found == nullptr || found->kind != MemoryKind::kMapped, CUDA_ERROR_INVALID_VALUE);
  const Allocation mapping = GetDriver().memory.Snapshot(found);
  const uint32_t bit = 1u << location->id;
  *flags = (mapping.write_mask & bit) != 0  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : (mapping.read_mask & bit) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                            : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  const AllocationPtr mapping = GetDriver().memory.Find(reinterpret_cast<uint64_t>(addr));
  RETURN_IF(mapping == nullptr || mapping->kind != MemoryKind::kMapped, CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(Space().mutex);
  const PhysicalPtr physical = Space().mapped[mapping->base];
  RETURN_IF(physical == nullptr, CUDA_ERROR_INVALID_VALUE);
  ++physical->references;
  GetDriver().physical.Put(physical->handle, physical);  // it may have been released while mapped
  *handle = physical->handle;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
  PhysicalPtr physical;
  RETURN_ON_ERROR(FindPhysical(handle, &physical));
  RETURN_IF(prop == nullptr, CUDA_ERROR_INVALID_VALUE);
  *prop = physical->properties();
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType, unsigned long long flags) {
  PhysicalPtr physical;
  RETURN_ON_ERROR(FindPhysical(handle, &physical));
  RETURN_IF(shareableHandle == nullptr || flags != 0, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
  RETURN_IF((physical->properties().requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0,
            CUDA_ERROR_INVALID_VALUE);
  const int fd = dup(physical->fd());
  RETURN_IF(fd < 0, CUDA_ERROR_OPERATING_SYSTEM);
  memcpy(shareableHandle, &fd, sizeof fd);
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                        CUmemAllocationHandleType shHandleType) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(handle == nullptr, CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
  const int given = static_cast<int>(reinterpret_cast<intptr_t>(osHandle));
  struct stat status;
  RETURN_IF(fstat(given, &status) != 0 || status.st_size <= 0 || static_cast<uint64_t>(status.st_size) % kGranularity != 0,
            CUDA_ERROR_INVALID_VALUE);
  UniqueFd fd(dup(given));
  RETURN_IF(!fd.valid(), CUDA_ERROR_OPERATING_SYSTEM);
  ContextPtr context;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = CurrentContext(&context) == CUDA_SUCCESS ? context->device().number() : 0;
  const uint64_t size_bytes = static_cast<uint64_t>(status.st_size);
  // Memory of another process counts against nothing there, so it is counted here, as an importing device's would.
  RETURN_IF(!GetDriver().device(properties.location.id)->Charge(size_bytes), CUDA_ERROR_OUT_OF_MEMORY);
  auto physical = std::make_shared<PhysicalMemory>(std::move(fd), size_bytes, properties);
  physical->handle = GetDriver().physical.Mint();
  GetDriver().physical.Put(physical->handle, physical);
  *handle = physical->handle;
  return CUDA_SUCCESS;
}

}  // extern "C"
