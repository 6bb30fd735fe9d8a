// A driver for tests of the worker's core: contexts, streams and events whose work is done when the test says so.
//
// One lives at a time (CUDA's functions carry no object). Any thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/base/mutex.h"

namespace tessera {

class FakeDriver {
 public:
  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const DriverTable& table() const { return table_; }

  CUcontext NewContext();
  CUstream NewStream(CUcontext context);
  // Work enqueued on `stream` up to now is done, or ended with `error`. Recorded events report it.
  void FinishWork(CUstream stream, CUresult error = CUDA_SUCCESS);
  // New recordings on any stream are done at once (the default), or wait for FinishWork.
  void SetIdle(bool idle);

  size_t events_made() const;
  size_t events_live() const;
  size_t streams_live() const;
  // Of the calling thread.
  static CUcontext Current();
  static CUstreamCaptureMode CaptureMode();

 private:
  struct Event {
    CUcontext context;
    CUstream stream = nullptr;
    bool done = true;
    CUresult error = CUDA_SUCCESS;
  };

  static FakeDriver* live_;
  DriverTable table_;
  mutable Mutex mutex_;
  uint64_t next_ GUARDED_BY(mutex_) = 0x1000;
  bool idle_ GUARDED_BY(mutex_) = true;
  size_t events_made_ GUARDED_BY(mutex_) = 0;
  std::map<CUstream, CUcontext> streams_ GUARDED_BY(mutex_);
  std::map<CUevent, Event> events_ GUARDED_BY(mutex_);
};

}  // namespace tessera
