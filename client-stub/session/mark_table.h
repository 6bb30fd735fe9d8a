// Completion marks: numbers that a client puts into a request, and that the server sends back (notice kCompletion, in
// `extra`, with the result of the GPU work) when the work behind them is done.
//
//   const uint64_t mark = session.marks().Open();
//   request.mark = mark; call.Async(request);
//   CUresult result = session.WaitForMark(mark);      // closes it
//
// Any thread. Open marks are bounded by what the caller keeps in flight.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "protocol/base/mutex.h"

namespace tessera {

class MarkTable {
 public:
  // A new mark, from 1, never reused in the session.
  uint64_t Open() EXCLUDES(mutex_);
  // True once the server sent it; `result` (may be null) becomes the result of the work. The mark stays open.
  bool Passed(uint64_t mark, CUresult* result = nullptr) const EXCLUDES(mutex_);
  // Forgets a mark, passed or not.
  void Close(uint64_t mark) EXCLUDES(mutex_);

  // By the session, for a notice. Marks that are not open are ignored (closed early).
  void Pass(uint64_t mark, CUresult result) EXCLUDES(mutex_);

 private:
  struct Mark {
    bool passed = false;
    CUresult result = CUDA_SUCCESS;
  };
  mutable Mutex mutex_;
  uint64_t next_ GUARDED_BY(mutex_) = 1;
  std::unordered_map<uint64_t, Mark> open_ GUARDED_BY(mutex_);
};

}  // namespace tessera
