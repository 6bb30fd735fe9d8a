// What the driver does in its own synchronising calls alone: work that is known to be done must be synchronised with all the same
// once the session relies on it. Set by whoever loads images or frees memory, read by whoever synchronises; any thread.
#pragma once

#include <atomic>

namespace tessera {

class DriverChores {
 public:
  // An image was loaded that can print: output is flushed there (CUDA programming guide, "Formatted Output").
  void NotePrints() { prints_.store(true, std::memory_order_release); }
  // Memory was freed in stream order: pools give it back there (CUDA Driver API, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD).
  void NoteFrees() { frees_.store(true, std::memory_order_release); }

  bool prints() const { return prints_.load(std::memory_order_acquire); }
  bool any() const { return prints() || frees_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> prints_{false};
  std::atomic<bool> frees_{false};
};

}  // namespace tessera
