// Work that a call of one session needs done by another session, in the order of the call's own stream. Copies to and from
// another server's devices use it, and so do waits for its events. Calling thread only.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>

#include "client-stub/call/call.h"
#include "client-stub/session/context_scope.h"
#include "client-stub/streams/helper_streams.h"
#include "client-stub/streams/stream_meeting.h"

namespace tessera {

// A call in another session, in a stream there that belongs to the library. Its context is current on the calling thread as long
// as the object lives, so whatever has to be done there is done by ordinary calls. The call that needs it makes its own calls
// after this object is destroyed.
class ServerWork {
 public:
  // `context` is active. Stops at the first failure: see result().
  explicit ServerWork(const Context& context);
  // Gives the stream back once it has done all that was enqueued.
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

// Does `work` in the session of `context` when `stream` of `call` gets there. What follows in `stream` follows that work. `work`
// is handed the other session's call and stream, and enqueues in that stream. The first failure of any part fails the call.
CUresult DoElsewhere(Call& call, HandleId stream, const Context& context, const std::function<CUresult(ServerWork&)>& work);

// Makes `stream` wait for an event of another session, as it was recorded last.
CUresult WaitForEventElsewhere(Call& call, CUstream stream, CUevent event);

}  // namespace tessera
