// Work that a call of one session needs done by another session, in the order of the call's own stream: what copies to and from
// another server's devices, and waits for its events, have in common. Calling thread only.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>

#include "client-stub/call/call.h"
#include "client-stub/session/context_scope.h"
#include "client-stub/streams/helper_streams.h"
#include "client-stub/streams/stream_meeting.h"

namespace tessera {

// A call in another session, in a stream of the library's own there. Its context is current on the calling thread as long as it
// lives, so what this one has to do there are ordinary calls, and those of the call that needs it come after it has ended.
class ServerWork {
 public:
  // `context` is active. Ends with the first failure, see result().
  explicit ServerWork(const Context& context);
  // The stream is given back when it has done all that was enqueued.
  ~ServerWork();
  ServerWork(const ServerWork&) = delete;
  ServerWork& operator=(const ServerWork&) = delete;

  CUresult result() const { return call_ == nullptr ? result_ : call_->result(); }
  Call& call() { return *call_; }
  HandleId stream() const { return stream_; }
  CUstream object() const { return reinterpret_cast<CUstream>(stream_.value()); }

 private:
  const ContextScope scope_;
  const HandleId context_;
  HandleId stream_;
  CUresult result_ = CUDA_SUCCESS;
  std::unique_ptr<Call> call_;
};

// Does `work` in the session of `context`, when `stream` of `call` gets there; what follows in `stream` follows that work. The
// work is handed the other session's call and stream and enqueues in it. Fails the call with the first failure of any part.
CUresult DoElsewhere(Call& call, HandleId stream, const Context& context, const std::function<CUresult(ServerWork&)>& work);

// `stream` waits for an event of another session, as it was recorded last.
CUresult WaitForEventElsewhere(Call& call, CUstream stream, CUevent event);

}  // namespace tessera
