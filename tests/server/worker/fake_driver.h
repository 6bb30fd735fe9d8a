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
  // It waits for the default stream: that it is idle says nothing of an event.
  CUstream NewBlockingStream(CUcontext context);
  // The stream has work again: it is not idle until FinishWork.
  void EnqueueWork(CUstream stream);
  // Work enqueued on `stream` up to now is done, or ended with `error`. Recorded events report it.
  void FinishWork(CUstream stream, CUresult error = CUDA_SUCCESS);
  // New recordings and writes on any stream are done at once, which is therefore idle (the default), or wait for FinishWork.
  void SetIdle(bool idle);
  // Writes what streams were told to write by now, and nothing else: events are done by FinishWork.
  void WriteWords();
  // From now on streams write words (cuStreamWriteValue64), which they do not in the beginning.
  void SetWords();

  size_t events_made() const;
  size_t queries() const;  // of events
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

  struct Write {
    CUstream stream;
    CUdeviceptr address;
    uint64_t value;
  };
  void WriteWord(const Write& write) REQUIRES(mutex_);

  static FakeDriver* live_;
  DriverTable table_;
  mutable Mutex mutex_;
  uint64_t next_ GUARDED_BY(mutex_) = 0x1000;
  bool idle_ GUARDED_BY(mutex_) = true;
  size_t events_made_ GUARDED_BY(mutex_) = 0;
  std::map<CUstream, CUcontext> streams_ GUARDED_BY(mutex_);
  std::map<CUevent, Event> events_ GUARDED_BY(mutex_);
  std::vector<Write> writes_ GUARDED_BY(mutex_);  // not done yet
  std::set<CUstream> blocking_ GUARDED_BY(mutex_);
  std::map<CUstream, CUresult> ended_ GUARDED_BY(mutex_);  // streams whose work was finished, and how; nothing was recorded since
  size_t queries_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tessera
