// Knows which streams are idle, so that a copy of pinned memory that only this process has may read its source at the call. CUDA
// reads such a source when the stream comes to the copy. Until then the program may write it, if it can hold the stream back: by
// a host function, a word that the stream or a kernel waits for, or another stream or process. An idle stream comes to the copy
// at once, so writing the source after the call is a race.
//
// A stream is idle if it got no work since the program was told that all its work is done. For a stream that does not wait for
// the default stream, the last synchronise of it or of its context tells that. For the default stream and those that wait for it,
// it is the last one that covered all of them. Copies that were read at their call do not count as work, since they wait for
// nothing. Unknown counts as busy: several servers, host functions that gave a stream work past the ring, waits of whole
// contexts. Any thread.
//
// Another thread may give the stream work while such a copy reads its source, with no order between the two calls. So the copy is
// appended only if nothing that was looked at has changed (Session::AppendIf). That is checked under the lock under which records
// are appended: the source was read while the stream had no work. Otherwise the copy goes the ordinary way. Records past the ring
// take that lock too: either they see the copy and stay behind it, or the copy sees them and is not appended.
#pragma once

#include <cuda.h>

#include <array>
#include <optional>

#include "client-stub/process/process_part.h"
#include "client-stub/session/basic_call.h"
#include "client-stub/session/last_sequence.h"

namespace tessera {

struct Context;
struct UsedStream;  // stream_state.h

// The records of this call give the stream work, which may wait for something.
void NoteStreamWork(BasicCall& call, CUstream stream);
// Of the process. Any thread.
struct UnnamedWork {
  static UnnamedWork& Process() { return PartOfProcess<UnnamedWork>::Get(); }

  LastSequence given;  // not 0: some stream may have been given work that was not noted
};
// Notes that streams wait which the call does not name, from the time this returns.
void NoteUnnamedWork(BasicCall& call);
// Takes NoteStreamWork() back: the stream is idle, and the call reads its source now.
void TakeBackStreamWork(BasicCall& call, const UsedStream& stream);
// The call has waited for all work of the stream, of the context.
void NoteSynchronized(BasicCall& call, const UsedStream& stream);
void NoteSynchronized(BasicCall& call, Context& context);

// Proof that a stream was idle. It still is while all of these are unchanged.
using SeenIdle = std::array<SeenSequence, 3>;
// nullopt: the stream is not known to be idle, or calls wait for their results.
std::optional<SeenIdle> KnownIdle(BasicCall& call, const UsedStream& stream);

}  // namespace tessera
