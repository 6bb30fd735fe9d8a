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
};
bool PrintsInUse(Worker& worker);

}  // namespace tessera
