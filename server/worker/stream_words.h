// Memory of this process, known to a context, by whose 64-bit words its streams and this process tell each other how far they
// are: without any call of the driver on this side, so on any thread and whatever the driver's locks are held for. This process
// may write them at any time, whatever became of the context. Source: CUDA driver API, "Stream Memory Operations".
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tessera {

struct DriverTable;

class StreamWords {
 public:
  // `bytes` zeros for the calling thread's current context. Null where its device has no such operations, or the driver does not
  // register the memory (which the log says: `else_what`, what happens instead).
  static std::shared_ptr<StreamWords> Make(const DriverTable& driver, size_t bytes, const char* else_what);
  // Leaves the memory where it is when the driver has not given it up: a stream may write it still.
  ~StreamWords();
  StreamWords(const StreamWords&) = delete;
  StreamWords& operator=(const StreamWords&) = delete;

  std::byte* memory() const { return memory_; }
  std::atomic_ref<uint64_t> word(size_t index) const {
    return std::atomic_ref<uint64_t>(reinterpret_cast<uint64_t*>(memory_)[index]);
  }
  // The same for the streams of the context.
  CUdeviceptr device() const { return device_; }
  CUdeviceptr address(size_t index) const { return device_ + index * sizeof(uint64_t); }

  // The context is about to end, its work is done, and it is current. A driver that cannot give the memory up (the context has
  // failed) has it for good.
  void EndContext(const DriverTable& driver);

 private:
  StreamWords(std::byte* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  std::byte* const memory_;
  const size_t bytes_;
  CUdeviceptr device_ = 0;
  bool registered_ = false;
};

}  // namespace tessera
