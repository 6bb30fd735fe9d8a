// The client's visits of streams (client-stub/streams/stream_visit.h), while the stream waits, without a host function of the
// driver: the driver runs those of a context one after the other, so a visit would wait for functions of the application, and one
// that waits for the visit's copy would wait for ever.
//
// An event tells when the stream is there (Completion); the client is asked as for a host function (host_function.h); and the
// stream waits for a word in memory of this process, which says how many of its visits are answered, counted without a gap
// from the first. What needs the n-th waits for n or more (CU_STREAM_WAIT_VALUE_GEQ), so a stream may go on ahead of its newest
// visits. The word goes to another stream once all its visits are answered and is never counted down, so nobody has to know
// when the device has seen it.
//
// A host function it is still: where the device cannot wait for words, in green contexts, for streams of another context than
// the current one or beyond kStreamsMax, and in graphs (graphs/host_copy_node.h). No stream gets ahead of those.
// Source: CUDA driver API, "Stream Memory Operations".
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>

#include "protocol/base/mutex.h"
#include "server/worker/call_context.h"
#include "server/worker/streams/stream_key.h"
#include "server/worker/streams/written_range.h"

namespace tessera {

struct TraceEvent;  // protocol/wire/trace_event.h
class Worker;

// A part of the worker.
class StreamVisits {
 public:
  // Streams of one context that have unanswered visits at once.
  static constexpr size_t kStreamsMax = 4096;

  explicit StreamVisits(Worker& worker) : worker_(worker) {}

  // Enqueues visit number `function` of the client, which nothing waits for yet; `stream` is what the call made of `id`, and is
  // not captured. `written` is published before the client is asked. When the stream's work fails the client is told that the
  // visit will not be. When the session ends all streams go on. `holds`: an Await() for it is next in the stream, so the session
  // may rest meanwhile (../gate/held_streams.h). Executor thread.
  CUresult Enqueue(CallContext& call, HandleId id, CUstream stream, uint64_t function, const WrittenRange& written, bool holds)
      EXCLUDES(mutex_);
  // What `stream` is given next waits for all its visits but the `ahead` newest. If that fails it does not wait: the program
  // hears of it as of a copy that failed. Executor thread.
  CUresult Await(CallContext& call, HandleId id, CUstream stream, uint64_t ahead) EXCLUDES(mutex_);
  // Waits until every visit that was enqueued is over, or the session is. For before a driver call that loads code: the driver
  // then waits for the device with its lock held, without which nobody hears that a stream has come to a visit. Executor and
  // helper threads.
  void Settle() EXCLUDES(mutex_);
  // The context is about to be destroyed or reset, its work is done, and it is current. Helper threads.
  void EndContext(CUcontext context) EXCLUDES(mutex_);

 private:
  struct Words;  // of one context
  // The word of a stream that has unanswered visits.
  struct Line {
    std::shared_ptr<Words> words;
    size_t index = 0;
  };
  // What becomes the visit's part of a trace; null: there is none.
  std::shared_ptr<TraceEvent> TraceOf(const CallContext& call);
  // Those of the stream's context. Null where words cannot be waited for.
  std::shared_ptr<Words> WordsFor(CallContext& call, CUstream stream) EXCLUDES(mutex_);
  std::shared_ptr<Words> WordsOf(CUcontext context) EXCLUDES(mutex_);
  std::shared_ptr<Words> MakeWords();
  // The next number of the stream's word; false when there is no word left.
  bool Next(const StreamKey& key, const std::shared_ptr<Words>& words, Line* line, uint64_t* number) EXCLUDES(mutex_);
  // Visit `number` of the stream is over.
  void Answered(const StreamKey& key, const Line& line, uint64_t number) EXCLUDES(mutex_);

  Worker& worker_;
  Mutex mutex_;
  std::map<CUcontext, std::shared_ptr<Words>> words_ GUARDED_BY(mutex_);  // null: the device cannot
  std::map<StreamKey, Line> lines_ GUARDED_BY(mutex_);
  std::condition_variable_any all_answered_;
};

}  // namespace tessera
