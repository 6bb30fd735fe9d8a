// Points at which streams of two servers wait for each other: both have a visit there (stream_visit.h), the second to be
// reached does what the meeting is for, then both streams go on. Nobody waits on a thread, and all records are appended by the
// call that arranges the meeting, so that no queue is held up by another one. What copies between servers and waits for another
// server's events are made of.
//
// When one stream never gets there (its context has failed, its server is gone) the other goes on without the meeting, and the
// thread that arranged it hears of that in its next call there, as of any work that failed.
#pragma once

#include <cuda.h>

#include <functional>

#include "client-stub/session/basic_call.h"
#include "protocol/memory/range_allocator.h"

namespace tessera {

// `first` and `second` are calls in two sessions; their streams must not be captured. `action` touches memory alone; `written`
// is what the first stream wrote before and the action reads. Calling thread only.
CUresult MeetStreams(BasicCall& first, HandleId first_stream, BasicCall& second, HandleId second_stream,
                     std::function<void()> action = {}, const Range& written = {});

}  // namespace tessera
