// Whether the session has loaded an image that can print: then synchronising calls must also make the driver's own
// synchronise call, since that is where it flushes device output (CUDA programming guide, "Formatted Output").
#pragma once

#include <atomic>

namespace tessera {

class Worker;

// A part of the worker: worker.Part<PrintfFlag>(). Set by whoever loads images, read by whoever synchronises; any thread.
struct PrintfFlag {
  explicit PrintfFlag(Worker&) {}
  std::atomic<bool> in_use{false};
  // Memory was freed in stream order: a pool gives it back in a synchronising call of the driver's (CUDA Driver API,
  // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD).
  std::atomic<bool> frees{false};
};
bool PrintsInUse(Worker& worker);
// Whether work that is known to be done must be synchronised with all the same.
bool DriverMustSynchronize(Worker& worker);

}  // namespace tessera
