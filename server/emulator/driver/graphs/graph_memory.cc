#include "server/emulator/driver/graphs/graph_memory.h"

#include <algorithm>
#include <cstring>

#include "server/emulator/driver/memory/device_memory.h"

namespace tessera::emulator {

Device& GraphMemory::device() const { return *GetDriver().device(params_.poolProps.location.id); }

CUresult GraphMemory::Make(const CUDA_MEM_ALLOC_NODE_PARAMS& params, GraphMemoryPtr* memory) {
  const CUmemPoolProps& pool = params.poolProps;
  RETURN_IF(pool.handleTypes != CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
  RETURN_IF(params.bytesize == 0 || pool.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
                pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE || GetDriver().device(pool.location.id) == nullptr,
            CUDA_ERROR_INVALID_VALUE);
  RETURN_IF(params.accessDescCount != 0 && params.accessDescs == nullptr, CUDA_ERROR_INVALID_VALUE);
  auto made = std::make_shared<GraphMemory>();
  auto allocation = std::make_shared<Allocation>();
  allocation->read_mask = allocation->write_mask = 1u << pool.location.id;
  for (size_t i = 0; i < params.accessDescCount; ++i) {
    const CUmemAccessDesc& access = params.accessDescs[i];
    RETURN_IF(access.location.type != CU_MEM_LOCATION_TYPE_DEVICE || GetDriver().device(access.location.id) == nullptr ||
                  access.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
              CUDA_ERROR_INVALID_VALUE);
    allocation->read_mask |= 1u << access.location.id;
    allocation->write_mask |= 1u << access.location.id;
    made->access_.push_back(access);
  }
  made->mapped_bytes_ = RoundUp(params.bytesize, kPageBytes);
  RETURN_IF(made->mapped_bytes_ < params.bytesize || made->mapped_bytes_ > GetDriver().device(pool.location.id)->total_bytes(),
            CUDA_ERROR_OUT_OF_MEMORY);
  made->params_ = params;
  made->params_.accessDescs = made->access_.empty() ? nullptr : made->access_.data();
  made->params_.dptr = GetDriver().memory.MapLowPages(made->mapped_bytes_, false);
  RETURN_IF(made->params_.dptr == 0, CUDA_ERROR_OUT_OF_MEMORY);
  allocation->base = made->address();
  allocation->size_bytes = params.bytesize;
  allocation->mapped_bytes = made->mapped_bytes_;
  allocation->kind = MemoryKind::kGraph;
  allocation->device = pool.location.id;
  allocation->absent = true;
  GetDriver().memory.Insert(allocation);
  std::lock_guard lock(GetDriver().graph_memory_mutex);
  GetDriver().graph_memory[made->address()] = made;
  *memory = std::move(made);
  return CUDA_SUCCESS;
}

GraphMemory::~GraphMemory() {
  if (address() == 0) return;
  {
    std::lock_guard lock(GetDriver().graph_memory_mutex);
    GetDriver().graph_memory.erase(address());
  }
  GetDriver().memory.Remove(address());
  GetDriver().memory.RetirePages(address(), mapped_bytes_);
}

GraphMemoryPtr GraphMemory::Find(uint64_t address) {
  Driver& driver = GetDriver();
  std::lock_guard lock(driver.graph_memory_mutex);
  const auto found = driver.graph_memory.find(address);
  return found == driver.graph_memory.end() ? nullptr : found->second.lock();
}

void GraphMemory::Appear() {
  MemoryTable::Poison(reinterpret_cast<void*>(address()), mapped_bytes_);
  GetDriver().memory.Update(address(), [](Allocation& changed) { changed.absent = false; });
  GraphMemoryUse& use = device().graph_memory;
  std::lock_guard lock(use.mutex);
  use.used += mapped_bytes_;
  use.used_high = std::max(use.used_high, use.used);
}

void GraphMemory::Vanish() {
  GetDriver().memory.Update(address(), [](Allocation& changed) { changed.absent = true; });
  GraphMemoryUse& use = device().graph_memory;
  std::lock_guard lock(use.mutex);
  use.used -= std::min(use.used, mapped_bytes_);
}

CUresult GraphMemoryPlan::Commit(bool auto_free, std::vector<GraphMemoryPtr>* free_first) {
  for (const GraphMemoryPtr& memory : allocated_) {
    if (!memory->live()) continue;
    RETURN_IF(!auto_free, CUDA_ERROR_INVALID_VALUE);
    free_first->push_back(memory);
  }
  const auto allocates = [this](const GraphMemoryPtr& memory) {
    return std::find(allocated_.begin(), allocated_.end(), memory) != allocated_.end();
  };
  for (const GraphMemoryPtr& memory : freed_) {
    RETURN_IF(!allocates(memory) && !memory->live(), CUDA_ERROR_INVALID_VALUE);
  }
  const auto kill = [](const GraphMemoryPtr& memory) {
    GraphMemoryUse& use = memory->device().graph_memory;
    std::lock_guard lock(use.mutex);
    use.live -= memory->mapped_bytes();
    memory->alive_ = nullptr;
  };
  std::vector<GraphMemoryPtr> born;
  for (const GraphMemoryPtr& memory : allocated_) {
    if (memory->live()) continue;
    GraphMemoryUse& use = memory->device().graph_memory;
    std::unique_lock lock(use.mutex);
    if (use.live + memory->mapped_bytes() > use.reserved) {
      const uint64_t more = use.live + memory->mapped_bytes() - use.reserved;
      if (!memory->device().Charge(more)) {
        lock.unlock();
        std::for_each(born.begin(), born.end(), kill);
        return CUDA_ERROR_OUT_OF_MEMORY;
      }
      use.reserved += more;
      use.reserved_high = std::max(use.reserved_high, use.reserved);
    }
    use.live += memory->mapped_bytes();
    memory->alive_ = memory;
    born.push_back(memory);
  }
  std::for_each(freed_.begin(), freed_.end(), kill);
  return CUDA_SUCCESS;
}

CUresult AllocCommand::Execute(Context&) {
  memory_->Appear();
  return CUDA_SUCCESS;
}

CUresult GraphFreeCommand::Execute(Context&) {
  memory_->Vanish();
  return CUDA_SUCCESS;
}

}  // namespace tessera::emulator
