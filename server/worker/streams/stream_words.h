// Memory of this process, known to a context, by whose 64-bit words its streams and this process tell each other how far they
// are: without any call of the driver on this side, so on any thread and whatever the driver's locks are held for.
// Source: CUDA driver API, "Stream Memory Operations".
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>

namespace tessera {

struct DriverTable;

class StreamWords {
 public:
  // `bytes` zeros for the current context. Null where the device has no such operations, or the driver does not register the
  // memory (which the log says: `else_what`, what happens instead).
  static std::shared_ptr<StreamWords> Make(const DriverTable& driver, size_t bytes, const char* else_what);
  ~StreamWords();
  StreamWords(const StreamWords&) = delete;
  StreamWords& operator=(const StreamWords&) = delete;

  std::byte* memory() const { return memory_; }
  // The same for the device.
  CUdeviceptr device() const { return device_; }

  // The context is about to end, its work is done, and it is current. A driver that cannot give the memory up (the context has
  // failed) has it for good.
  void EndContext(const DriverTable& driver);

 private:
  StreamWords(std::byte* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  std::byte* const memory_;
  const size_t bytes_;
  CUdeviceptr device_ = 0;
  bool kept_by_driver_ = false;
};

}  // namespace tessera
