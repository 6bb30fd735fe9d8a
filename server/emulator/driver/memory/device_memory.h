// Allocating and freeing memory of a device, as entry points, module variables, pools and arrays need it.
#pragma once

#include "server/emulator/driver/core/state.h"
#include "server/emulator/ptx/run/module.h"

namespace tessera::emulator {

// Charges the device and maps poisoned (or zeroed) pages. CUDA_ERROR_OUT_OF_MEMORY when either fails.
CUresult AllocateDeviceMemory(Context& context, uint64_t size_bytes, MemoryKind kind, bool poison, uint64_t* address);
// Undoes AllocateDeviceMemory; does not wait for anything. False when `address` is no such allocation's start.
bool FreeDeviceMemory(uint64_t address, MemoryKind kind);

// The managed variables of a module or library: one memory for all contexts, found again by the order in which the code
// declares them. They lie side by side, as the driver's do: several on a page. Any thread.
class ManagedVariables {
 public:
  ManagedVariables() = default;
  ~ManagedVariables();
  ManagedVariables(const ManagedVariables&) = delete;
  ManagedVariables& operator=(const ManagedVariables&) = delete;

  // The place of the variable with this number; `known`: it was asked for before.
  Result<uint64_t> Place(size_t number, uint64_t size_bytes, bool* known);

 private:
  static constexpr uint64_t kStepBytes = 512;  // as seen on an H200

  // Pages for at least `bytes` more. With mutex_ held.
  Status AddSlab(uint64_t bytes);

  std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<uint64_t> places_;
  std::vector<uint64_t> slabs_;         // what the variables lie in
  uint64_t free_ = 0, free_bytes_ = 0;  // the rest of the newest
};

// Places a module's variables in device memory of one context. Must not outlive the context's device.
class VariableAllocator : public GlobalAllocator {
 public:
  VariableAllocator(ContextPtr context, std::shared_ptr<ManagedVariables> managed)
      : context_(std::move(context)), managed_(std::move(managed)) {}
  Result<uint64_t> Allocate(uint64_t size_bytes, uint64_t alignment_bytes) override;
  Result<uint64_t> AllocateManaged(uint64_t size_bytes, uint64_t alignment_bytes, bool* kept) override;
  void Free(uint64_t address) override;

 private:
  const ContextPtr context_;
  const std::shared_ptr<ManagedVariables> managed_;
  size_t managed_count_ = 0;
};

}  // namespace tessera::emulator
