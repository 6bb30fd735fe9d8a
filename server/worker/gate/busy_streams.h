// The streams that may have unfinished work, for cuCtxSynchronize. A context can have hundreds of streams; a program uses a few
// of them between two synchronisations.
//
// Every use of a stream by a call goes through CallContext::UseStream(), which calls Touch() before the work is enqueued.
// The legacy stream is not noted: it is always waited for.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "protocol/base/mutex.h"

namespace tessera {

class BusyStreams {
 public:
  struct Use {
    CUstream stream;
    uint64_t touched;  // the latest use that a wait started now will cover
  };

  // The stream is about to get work. Any thread; takes no lock if the thread used the same stream last.
  void Touch(CUstream stream) {
    const Last& last = last_;
    if (last.table == this && last.stream == stream && last.round == round_.load(std::memory_order_acquire)) return;
    TouchSlow(stream);
  }
  // The streams that were used since they were last found idle. The executor thread.
  std::vector<Use> Unfinished() EXCLUDES(mutex_);
  // A wait that covers these uses has succeeded.
  void Finished(std::span<const Use> uses) EXCLUDES(mutex_);
  // The stream is destroyed. Its address may come back as another stream's.
  void Forget(CUstream stream) EXCLUDES(mutex_);

  // A stream of the context is destroyed before its work is done: only the driver can wait for that (cuCtxSynchronize).
  void NoteOrphan(CUcontext context) EXCLUDES(mutex_);
  // How many such streams there were since the driver was last seen to have done all their work.
  uint64_t Orphans(CUcontext context) EXCLUDES(mutex_);
  void OrphansDone(CUcontext context, uint64_t orphans) EXCLUDES(mutex_);

 private:
  struct Entry {
    uint64_t touched = 0;
    uint64_t finished = 0;
    // A helper thread uses it, and may still enqueue work when the use looks finished. So it is always waited for.
    bool sticky = false;
  };
  // The last stream that this thread touched, and the round in which it did.
  struct Last {
    const BusyStreams* table = nullptr;
    CUstream stream = nullptr;
    uint64_t round = 0;
  };

  void TouchSlow(CUstream stream) EXCLUDES(mutex_);

  static thread_local Last last_;
  std::atomic<uint64_t> round_{1};  // a new one begins with every Unfinished() and Forget()
  Mutex mutex_;
  std::thread::id executor_ GUARDED_BY(mutex_);
  std::unordered_map<CUcontext, uint64_t> orphans_ GUARDED_BY(mutex_);
  uint64_t next_ GUARDED_BY(mutex_) = 1;
  std::unordered_map<CUstream, Entry> entries_ GUARDED_BY(mutex_);
};

}  // namespace tessera
