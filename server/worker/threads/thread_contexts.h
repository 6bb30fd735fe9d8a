// Which context is current on each thread that works for a session. Worker owns it, and has the same calls under longer names.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "server/worker/threads/driver_thread.h"

namespace tessera {

struct DriverTable;  // generated/driver_table.h

// Executor, aside, helper and completion threads; NOT a callback thread of the driver.
class ThreadContexts {
 public:
  // `driver` outlives it.
  explicit ThreadContexts(const DriverTable& driver);
  ThreadContexts(const ThreadContexts&) = delete;
  ThreadContexts& operator=(const ThreadContexts&) = delete;

  // Makes a context (null: none) current on the calling thread, in the driver, when it is not already, and puts the thread
  // into RELAXED capture mode on its first use. The driver's verdict otherwise.
  CUresult Set(CUcontext context) {
    return DriverThread::Of(serial_).SetContext(driver_, epoch_.load(std::memory_order_acquire), context);
  }
  // What Set() last made current on the calling thread.
  CUcontext current() const { return DriverThread::Of(serial_).current(); }
  // The calling thread itself changed what is current in the driver (cuCtxCreate pushes): the next Set() sets it again instead
  // of trusting its memory. current() is null until then.
  void Forget() { DriverThread::Of(serial_).Forget(); }
  // A context was destroyed or reset: as Forget(), for all threads (a new context may get the old address).
  void ForgetAll() { epoch_.fetch_add(1, std::memory_order_release); }

  // Different for every object the process ever had.
  uint64_t serial() const { return serial_; }

 private:
  const DriverTable& driver_;
  const uint64_t serial_;
  std::atomic<uint32_t> epoch_{0};
};

}  // namespace tessera
