// Words of this process's own memory that streams wait for and write (CUDA driver API, "Stream Memory Operations"). They may be
// written by the process at any time, whatever became of the context.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tessera {

struct DriverTable;

class HostWords {
 public:
  // `count` words, all 0, registered in the calling thread's current context. Null where the device's streams cannot use words of 64
  // bits, or the driver does not register them.
  static std::unique_ptr<HostWords> Make(const DriverTable& driver, size_t count);
  // Leaves the memory where it is when the driver has not given it up: a stream may write it still.
  ~HostWords();
  HostWords(const HostWords&) = delete;
  HostWords& operator=(const HostWords&) = delete;

  // The context is about to end, its work is done, and it is current.
  void Unregister(const DriverTable& driver);

  std::atomic_ref<uint64_t> operator[](size_t index) { return std::atomic_ref<uint64_t>(memory_[index]); }
  // For the streams of the context.
  CUdeviceptr address(size_t index) const { return device_ + index * sizeof(uint64_t); }

 private:
  HostWords(uint64_t* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  uint64_t* const memory_;
  const size_t bytes_;
  CUdeviceptr device_ = 0;
  bool registered_ = false;
};

}  // namespace tessera
