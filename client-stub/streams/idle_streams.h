// Which streams are known to be idle, so that a copy which is called now may be done now: for copies of pinned memory that only
// this process has. CUDA reads such a source when the stream comes to the copy, and until then the program may write it, if
// something that it controls keeps the stream from coming there: a host function, a word that the stream or a kernel waits for,
// another stream or process. An idle stream comes to it at once, so a program that writes the source after the call has a race.
//
// Idle is what has been given no work since the program was told that all of it is done: a stream that does not wait for the
// default stream by the last synchronise of it or of its context; the default stream, and those that wait for it, by the last
// one that covered all of them. Copies that were read at their call are no work in this sense: they wait for nothing. What is
// not known counts as busy: several servers, host functions that gave a stream work past the ring, waits of whole contexts. Any
// thread.
//
// Another thread may give the stream work while such a copy reads its source, with no order between the two calls. So the copy
// is appended only if nothing that was looked at has changed by then, under the lock under which records are appended and what
// they change is raised (Session::AppendIf): its source was then read while the stream had no work. Otherwise it goes the
// ordinary way. What goes past the ring takes that lock in turn: either it sees the copy and stays behind it, or the copy sees
// it and is not appended.
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
// Streams wait that are not named, from when this returns.
void NoteUnnamedWork(BasicCall& call);
// They do not, after all: the stream is idle, and the call reads its source now.
void TakeBackStreamWork(BasicCall& call, const UsedStream& stream);
// The call has waited for all work of the stream, of the context.
void NoteSynchronized(BasicCall& call, const UsedStream& stream);
void NoteSynchronized(BasicCall& call, Context& context);

// A stream was known to be idle, and still is while all of these are unchanged.
using SeenIdle = std::array<SeenSequence, 3>;
// Nothing: it is not known to be. Nor where calls wait for their results.
std::optional<SeenIdle> KnownIdle(BasicCall& call, const UsedStream& stream);

}  // namespace tessera
