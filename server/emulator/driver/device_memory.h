// Allocating and freeing memory of a device, as entry points, module variables, pools and arrays need it.
#pragma once

#include "server/emulator/driver/state.h"
#include "server/emulator/ptx/module.h"

namespace tessera::emulator {

inline uint64_t RoundUp(uint64_t value, uint64_t granule) { return (value + granule - 1) / granule * granule; }

// Charges the device and maps poisoned (or zeroed) pages. CUDA_ERROR_OUT_OF_MEMORY when either fails.
CUresult AllocateDeviceMemory(Context& context, uint64_t size_bytes, MemoryKind kind, bool poison, uint64_t* address);
// Undoes AllocateDeviceMemory; does not wait for anything. False when `address` is no such allocation's start.
bool FreeDeviceMemory(uint64_t address, MemoryKind kind);

// Places a module's variables in device memory of one context. Must not outlive the context's device.
class VariableAllocator : public GlobalAllocator {
 public:
  explicit VariableAllocator(ContextPtr context) : context_(std::move(context)) {}
  Result<uint64_t> Allocate(uint64_t size_bytes, uint64_t alignment_bytes, bool managed) override;
  void Free(uint64_t address) override;

 private:
  ContextPtr context_;
};

}  // namespace tessera::emulator
