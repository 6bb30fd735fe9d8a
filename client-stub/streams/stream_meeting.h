// Points at which streams of two servers wait for each other. Both have a visit there (stream_visit.h). The second visit to be
// reached does the meeting's action, then both streams go on. No thread waits, and the call that arranges the meeting appends all
// records, so no queue holds up another. Copies between servers and waits for another server's events are made of meetings.
//
// If one stream never gets there (its context has failed, its server is gone) the other goes on without the meeting. The thread
// that arranged it gets the error in its next call there, as for any work that failed.
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
