// A word in which streams say that they have come so far: seen about a microsecond before an event that is recorded at the same
// place is done (H200, driver 580: tests/bench/stages.md), and looking at it costs no call of the driver.
//
// Each use writes another number. Streams may write in any order, so the word may skip a number; it never shows one too early.
// Work that fails writes nothing. Whoever waits therefore asks an event as well, now and then.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>

#include "protocol/base/mutex.h"
#include "server/worker/stream_words.h"

namespace tessera {

struct DriverTable;    // generated/driver_table.h
class ThreadContexts;  // threads/thread_contexts.h

// Which of a context's words that is.
inline constexpr size_t kDoneWord = 0;

// One place of a stream. Empty: nothing will be told.
struct DoneWord {
  std::shared_ptr<StreamWords> words;
  uint64_t number = 0;

  explicit operator bool() const { return words != nullptr; }
  bool seen() const { return words->word(kDoneWord).load(std::memory_order_acquire) == number; }
};

class DoneWords {
 public:
  // Both outlive it.
  DoneWords(const DriverTable& driver, ThreadContexts& contexts) : driver_(driver), contexts_(contexts) {}

  // The context is new, and not a green one. Its memory is made now, while the device runs nothing for it that registering
  // memory could have to wait for. Executor and helper threads.
  void BeginContext(CUcontext context) EXCLUDES(mutex_);
  // Enqueues the write behind everything on `stream`, which is of the calling thread's current context and is not captured. Empty
  // where that is not possible. Executor thread.
  DoneWord WriteBehind(CUstream stream) EXCLUDES(mutex_);
  // Enqueues a write that nobody looks for: the stream has work of its own until then. False where that is not possible. As
  // above, but any thread.
  bool WriteUnread(CUstream stream) EXCLUDES(mutex_);
  // The context is about to be destroyed or reset, its work is done, and it is current. Helper threads.
  void EndContext(CUcontext context) EXCLUDES(mutex_);

 private:
  // Those of the calling thread's current context; null: none.
  std::shared_ptr<StreamWords> Words() EXCLUDES(mutex_);

  const DriverTable& driver_;
  ThreadContexts& contexts_;
  uint64_t last_number_ = 0;  // of the executor alone
  Mutex mutex_;
  std::map<CUcontext, std::shared_ptr<StreamWords>> words_ GUARDED_BY(mutex_);  // none: not possible
};

}  // namespace tessera
