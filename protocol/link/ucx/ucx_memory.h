// Memory that the devices know: registered once, and not for each payload.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>

#include "protocol/base/mutex.h"
#include "protocol/link/ucx/ucx_worker.h"

namespace tessera {

// A range that stays registered as long as somebody holds it.
class UcxRegistration {
 public:
  // Null when the devices cannot take it, as when the limit of locked memory is reached; a line in the log says so. `owned`: from
  // mmap(2), and unmapped in the end; else it is mapped for longer than this lives.
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

// What a link was told of by Register(). Any thread.
class UcxRegistrations {
 public:
  void Register(const UcxWorker& worker, std::span<std::byte> memory);
  // Whoever has found it goes on holding it.
  void Forget(std::span<std::byte> memory);
  // What holds all of `range`; null when nothing does.
  std::shared_ptr<const UcxRegistration> Find(std::span<const std::byte> range) const;

 private:
  mutable Mutex mutex_;
  std::map<const std::byte*, std::shared_ptr<const UcxRegistration>> all_ GUARDED_BY(mutex_);  // by where they begin
};

}  // namespace tessera
