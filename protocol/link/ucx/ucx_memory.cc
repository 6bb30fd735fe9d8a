#include "protocol/link/ucx/ucx_memory.h"

#include <sys/mman.h>

#include <iterator>
#include <utility>

#include "protocol/base/log.h"

namespace tessera {

std::shared_ptr<const UcxRegistration> UcxRegistration::Make(const UcxWorker& worker, std::span<std::byte> memory, bool owned) {
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = memory.data();
  params.length = memory.size();
  ucp_mem_h handle = nullptr;
  const ucs_status_t status = worker.ucx().ucp_mem_map(worker.context(), &params, &handle);
  if (status == UCS_OK) return std::shared_ptr<const UcxRegistration>(new UcxRegistration(worker, memory, handle, owned));
  LogInfo("{} MiB could not be registered for RDMA ({}): copies of it are slower; raise the limit of locked memory (ulimit -l)",
          memory.size() >> 20, worker.ucx().ucs_status_string(status));
  return nullptr;
}

UcxRegistration::~UcxRegistration() {
  ucx_.ucp_mem_unmap(context_, handle_);
  if (owned_) munmap(memory_.data(), memory_.size());
}

bool UcxRegistration::Holds(std::span<const std::byte> range) const {
  const std::byte* end = memory_.data() + memory_.size();
  return range.data() >= memory_.data() && range.data() < end && range.size() <= static_cast<size_t>(end - range.data());
}

void UcxRegistrations::Register(const UcxWorker& worker, std::span<std::byte> memory) {
  auto made = memory.empty() ? nullptr : UcxRegistration::Make(worker, memory, false);
  if (made == nullptr) return;
  MutexLock lock(mutex_);
  all_[memory.data()].swap(made);
}

void UcxRegistrations::Forget(std::span<std::byte> memory) {
  std::shared_ptr<const UcxRegistration> forgotten;  // ended without the mutex
  MutexLock lock(mutex_);
  const auto found = all_.find(memory.data());
  if (found == all_.end()) return;
  forgotten.swap(found->second);
  all_.erase(found);
}

std::shared_ptr<const UcxRegistration> UcxRegistrations::Find(std::span<const std::byte> range) const {
  MutexLock lock(mutex_);
  const auto after = all_.upper_bound(range.data());
  if (after == all_.begin()) return nullptr;
  const auto& before = std::prev(after)->second;
  return before->Holds(range) ? before : nullptr;
}

}  // namespace tessera
