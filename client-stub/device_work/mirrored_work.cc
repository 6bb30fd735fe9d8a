#include "client-stub/device_work/mirrored_work.h"

#include "client-stub/memory/client_memory.h"
#include "client-stub/session/session.h"
#include "client-stub/streams/stream_visit.h"

namespace tessera {

MirroredWork::MirroredWork(BasicCall& call, HandleId stream)
    : call_(call), stream_(stream), mirrors_(call.session().memory().mirrors()) {
  if (!mirrors_.any() || call.capturing()) return;
  // The thread of visits reconciles around each of them: there is nothing else to do in one. Without shared pages the stream
  // meets this process only for what copies have yet to write here: it would be missing there.
  const bool mirrored = call.session().mirrored();
  if (!mirrored || call.session().memory().deliveries().AnyLate()) {
    result_ = VisitStream(call, stream, [](const GoOn& go_on) { go_on(); });
  }
  if (mirrored && result_ == CUDA_SUCCESS) result_ = mirrors_.Tell(call);
}

CUresult MirroredWork::Appended() {
  if (!mirrors_.any() || call_.capturing()) return CUDA_SUCCESS;
  if (call_.session().mirrored()) return mirrors_.NoteUse(call_, stream_);
  return VisitStream(call_, stream_, [](const GoOn& go_on) { go_on(); });
}

}  // namespace tessera
