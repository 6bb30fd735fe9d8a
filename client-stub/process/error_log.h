// The error log of this process (CUDA 12.9, "Error Log Management"). Each failed call of the application has one entry: the
// driver's words for its code. The server's driver may know more, but that stays in the server's process.
//
// Kept are the last kEntriesMax entries. Questions about work that is not done (CUDA_ERROR_NOT_READY) are no failures. Any
// thread; callbacks run on the thread whose call failed, after the call, and without a lock. Source: CUDA driver API, "Error
// Log Management Functions".
#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "client-stub/process/process_part.h"
#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

class ErrorLog {
 public:
  static constexpr size_t kEntriesMax = 100;
  // An entry has at most this many bytes, its newline included.
  static constexpr size_t kEntryBytesMax = 256;
  // The longest dump (documented for cuLogsDumpToMemory).
  static constexpr size_t kDumpBytesMax = kEntriesMax * kEntryBytesMax;

  // The process' log.
  static ErrorLog& Process() { return PartOfProcess<ErrorLog>::Get(); }

  // `function` failed with `result`.
  void Add(const char* function, CUresult result) EXCLUDES(mutex_);

  void Register(HandleId handle, CUlogsCallback callback, void* data) EXCLUDES(mutex_);
  void Unregister(HandleId handle) EXCLUDES(mutex_);

  // The number of the entry that will be written next: a CUlogIterator.
  uint32_t Next() const EXCLUDES(mutex_);
  // The entries from number `first` on, each with a newline at its end, in at most `bytes_max` bytes. If not all fit: a line that
  // says so, then the newest ones. Empty, with `*fits` false: not even one fits. `*next`: the number after the last.
  std::string Text(uint32_t first, size_t bytes_max, uint32_t* next, bool* fits) const EXCLUDES(mutex_);
  // The number of the oldest entry that is kept.
  uint32_t Oldest() const EXCLUDES(mutex_);

 private:
  struct Callback {
    HandleId handle;
    CUlogsCallback function;
    void* data;
  };
  mutable Mutex mutex_;
  std::deque<std::string> entries_ GUARDED_BY(mutex_);
  uint32_t next_ GUARDED_BY(mutex_) = 0;
  std::vector<Callback> callbacks_ GUARDED_BY(mutex_);
};

}  // namespace tessera
