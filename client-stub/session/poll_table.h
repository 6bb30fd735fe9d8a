// Keeps what is known of events and streams that an application polls (cuEventQuery, cuStreamQuery). So a poll loop neither waits
// for a round trip in each turn nor floods the ring.
//
// The first query is a round trip. When its answer is CUDA_ERROR_NOT_READY the server watches the object and sends a
// completion mark (mark_table.h). Until then "not ready" stays a fact as long as nothing else was heard of the server:
// a reply or notice may have told the program of work that came later, so after any of them the next query asks again, and so
// does one after kConfirmNs. Nothing is guessed.
//
// Any thread.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "client-stub/session/mark_table.h"
#include "protocol/base/mutex.h"

namespace tessera {

class PollTable {
 public:
  // An event's handle, or a stream's StreamRef::key.
  using Key = uint64_t;
  // How long "not ready" is repeated without asking. A mark comes within microseconds; this is for a server that is starved.
  static constexpr uint64_t kConfirmNs = 100'000'000;

  explicit PollTable(MarkTable& marks) : marks_(marks) {}

  // Whether nothing is known of any object. Paths that enqueue work look at this first.
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }

  enum class State { kUnknown, kPending, kDone };
  // `news`: how many records of the server were read so far. `sequence`: of the last record sent, when later records may
  // have given the object more work (streams); 0 for an event, whose records are announced with Forget().
  State Look(Key key, uint64_t news, uint64_t now_ns, uint64_t sequence) EXCLUDES(mutex_);

  // Before a query is sent: the mark it asks for, 0 when the server watches the object already.
  uint64_t Begin(Key key) EXCLUDES(mutex_);
  // The answer to the query with that mark. `news`: its value before the query was sent. `sequence`: the query's own.
  void End(Key key, uint64_t mark, CUresult result, uint64_t news, uint64_t now_ns, uint64_t sequence) EXCLUDES(mutex_);

  // The object has new work (after the record that gave it was sent), or is destroyed.
  void Forget(Key key) EXCLUDES(mutex_);
  void ForgetAll() EXCLUDES(mutex_);

 private:
  struct Poll {
    uint64_t mark = 0;  // 0: none is outstanding
    bool done = false;
    uint64_t sequence = 0;      // of the query that asked for the mark, or found the object done
    uint64_t news = 0;          // "not ready" was heard with this many records read
    uint64_t confirmed_ns = 0;  // and at this time; 0: never
  };
  void Erase(std::unordered_map<Key, Poll>::iterator poll) REQUIRES(mutex_);

  MarkTable& marks_;
  std::atomic<size_t> size_{0};
  Mutex mutex_;
  std::unordered_map<Key, Poll> polls_ GUARDED_BY(mutex_);
};

}  // namespace tessera
