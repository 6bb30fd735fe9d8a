// The primary contexts that the client holds, by device.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>

#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

class Worker;

// A part of the worker. Every function may block in the driver: helper threads. Calls for one device do not overlap.
class PrimaryContexts {
 public:
  explicit PrimaryContexts(Worker& worker);

  // Retains the primary context of `device` once more, with `flags` when nobody held it, and enters it under `id`.
  CUresult Retain(HandleId id, CUdevice device, unsigned flags) EXCLUDES(mutex_);
  // Gives one retain back; the last one ends the context. CUDA_ERROR_INVALID_CONTEXT when none is held.
  CUresult Release(CUdevice device) EXCLUDES(mutex_);
  // Ends the context, whatever was retained; it must be retained again before its next use. Success when it is not active.
  CUresult Reset(CUdevice device) EXCLUDES(mutex_);

 private:
  struct Held {
    HandleId id;
    CUcontext context = nullptr;
    unsigned retains = 0;
  };

  // Retain(), of a context that is counted already.
  CUresult RetainCounted(HandleId id, CUdevice device, unsigned flags) REQUIRES(mutex_);
  // Takes the context that was retained in advance, when there is one and the client wants it with the flags it has; else ends
  // it. Null: retain one.
  CUcontext TakeWarm(CUdevice device, bool wanted) REQUIRES(mutex_);
  // The contexts of green contexts go with their primary one, of which the driver takes care.
  void EndGreens(HandleId primary) REQUIRES(mutex_);

  Worker& worker_;
  Mutex mutex_;  // over the driver's calls too
  std::map<CUdevice, Held> held_ GUARDED_BY(mutex_);
  std::map<CUdevice, CUcontext> warm_ GUARDED_BY(mutex_);  // nobody's yet
};

}  // namespace tessera
