// Runs the application's host functions: the driver calls a trampoline here, which asks the client and waits for its
// answer, so the stream goes on when the function has returned.
//
// The library's own visits (client-stub/streams/stream_visit.h) are the same thing here in graphs, and where stream_visits.h says
// so.
//
// The request is a kHostFunction notice: `extra` is the number to answer with, `result` what a stream callback is told,
// the payload a u64, the client's number of the function. The answer comes on the ring `answers`, read by a thread of its
// own (answer_hub.h): the executor may be blocked in a launch that waits for this very function. The number 0 asks for no
// answer (destructors of user objects).
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"
#include "server/worker/streams/written_range.h"

namespace tessera {

class Worker;

// A part of the worker. Any thread.
class HostFunctions {
 public:
  enum class Form { kHostFunction, kCallback };  // cuLaunchHostFunc, cuStreamAddCallback

  // A target of the driver's calls. Those of graph nodes run any number of times and stay until ReleaseWith() their graphs,
  // or until the process ends, as does one whose stream failed before it ran (the driver then never calls it): 80 bytes each.
  struct Target;

  explicit HostFunctions(Worker& worker);
  // Lets functions that are waiting return; later calls of the driver return at once.
  ~HostFunctions();

  // Enqueues function number `function` of the client. `repeats`: the stream is being captured, so it becomes a graph's.
  // `written`: published before the client is asked.
  CUresult Launch(CUstream stream, uint64_t function, Form form, bool repeats, const WrittenRange& written = {});
  // What a host node of a graph is made of. `note` is kept with it for NoteOf().
  CUDA_HOST_NODE_PARAMS NodeParams(uint64_t function, std::span<const std::byte> note = {}, const WrittenRange& written = {});
  // The client's number behind a node's parameters; 0 when they are not ours.
  static uint64_t FunctionOf(const CUDA_HOST_NODE_PARAMS& params);
  // The note behind a node's parameters; empty when they are not ours or have none.
  static std::span<const std::byte> NoteOf(const CUDA_HOST_NODE_PARAMS& params);
  // Node parameters that were made with NodeParams() end with `graph`, its copies and their instances, launches in flight
  // included; the client is told (kHostFunctionReleased). Where the driver has no user objects they stay. A failure is the
  // driver's: nothing has changed then.
  CUresult ReleaseWith(CUgraph graph, const CUDA_HOST_NODE_PARAMS& params);
  // What a user object of the application is made of: when its last reference goes, the client is asked to run `function`,
  // once, and nothing waits for that; the handle `object` ends then.
  struct Destructor {
    CUhostFn function;
    void* data;
  };
  Destructor MakeDestructor(uint64_t function, HandleId object);
  // The driver has refused to make the object.
  static void Drop(const Destructor& destructor);
  // Parameters that no node got.
  static void Discard(const CUDA_HOST_NODE_PARAMS& params);

 private:
  struct Gate;
  template <typename Action>
  static void WithWorker(const std::shared_ptr<Gate>& gate, Action action);
  static void CUDA_CB RunHostFunction(void* target);
  static void CUDA_CB RunCallback(CUstream stream, CUresult status, void* target);
  static void CUDA_CB Release(void* target);
  static void CUDA_CB RunDestructor(void* target);
  static void Run(Target* target, CUresult status);

  Worker& worker_;
  const std::shared_ptr<Gate> gate_;
};

}  // namespace tessera
