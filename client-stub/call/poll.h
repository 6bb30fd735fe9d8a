// The common body of cuEventQuery and cuStreamQuery (poll_table.h says what may be answered here).
#pragma once

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/session/poll_table.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "protocol/base/clock.h"

namespace tessera {

// The calling thread keeps asking: where cores are few it lets the server run.
void YieldToServer();

// The kinds differ when more work is sent: an event stays done until it is recorded again, a stream does not.
enum class PolledObject { kEvent, kStream };

// Answers the call from what is known, or with `request`, which names the object already. The calling thread only.
// `asked` (may be null) becomes true when the server was asked by way of the ring of commands.
template <typename Request>
CUresult Poll(Call& call, PolledObject object, PollTable::Key key, Request& request, bool* asked = nullptr) {
  Session& session = call.session();
  PollTable& polls = session.polls();
  if (call.thread().in_host_function) {  // nothing is watched for it: that would record events, which may block
    request.mark = 0;
    const CUresult result = call.SyncWork(request);
    if (result == CUDA_ERROR_NOT_READY) YieldToServer();
    return result;
  }
  if (!polls.empty()) {
    session.Poll();
    const uint64_t sequence = object == PolledObject::kStream ? session.last_sequence() : 0;
    switch (polls.Look(key, session.records_read(), MonotonicNs(), sequence)) {
      case PollTable::State::kDone: return call.FinishWork();
      case PollTable::State::kPending: YieldToServer(); return call.Fail(CUDA_ERROR_NOT_READY);
      case PollTable::State::kUnknown: break;
    }
  }
  const uint64_t news = session.records_read();
  request.mark = polls.Begin(key);
  const CUresult result = call.SyncWork(request);
  polls.End(key, request.mark, result, news, MonotonicNs(), call.thread().reply.sequence());
  if (asked != nullptr) *asked = true;
  return result;
}

}  // namespace tessera
