// Memory that is registered with the devices once, not for each payload.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>

#include "protocol/base/mutex.h"
#include "protocol/link/ucx/ucx_worker.h"

namespace tessera {

// A range that stays registered while somebody holds this object.
class UcxRegistration {
 public:
  // Null, with a line in the log: the devices cannot take it, for example at the limit of locked memory. `owned`: it is from
  // mmap(2), and the destructor unmaps it; else it stays mapped for longer than this object lives.
  static std::shared_ptr<const UcxRegistration> Make(const UcxWorker& worker, std::span<std::byte> memory, bool owned);
  ~UcxRegistration();
  UcxRegistration(const UcxRegistration&) = delete;
  UcxRegistration& operator=(const UcxRegistration&) = delete;

  ucp_mem_h handle() const { return handle_; }
  bool Holds(std::span<const std::byte> range) const;

 private:
  UcxRegistration(const UcxWorker& worker, std::span<std::byte> memory, ucp_mem_h handle, bool owned)
      : ucx_(worker.ucx()), context_(worker.context()), memory_(memory), handle_(handle), owned_(owned) {}

  const UcxLibrary& ucx_;
  const ucp_context_h context_;
  const std::span<std::byte> memory_;
  const ucp_mem_h handle_;
  const bool owned_;
};

// The memory that Register() has named to a link. Any thread.
class UcxRegistrations {
 public:
  void Register(const UcxWorker& worker, std::span<std::byte> memory);
  // Those who have found it still hold it.
  void Forget(std::span<std::byte> memory);
  // The registration that covers all of `range`; null: none.
  std::shared_ptr<const UcxRegistration> Find(std::span<const std::byte> range) const;

 private:
  mutable Mutex mutex_;
  std::map<const std::byte*, std::shared_ptr<const UcxRegistration>> all_ GUARDED_BY(mutex_);  // by where they begin
};

}  // namespace tessera
