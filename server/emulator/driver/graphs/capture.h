// Stream capture: what makes a call legal while streams capture, and how commands become nodes.
//
// Every entry point that gives a stream work goes through Enqueue, RecordEvent or WaitForEvent; every call that natively
// is "potentially unsafe" or waits asks CheckUnsafeCall first.
// Source: CUDA driver API, "Stream Management": cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode; CUDA programming
// guide, "Creating a Graph Using Stream Capture".
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "server/emulator/driver/core/event.h"
#include "server/emulator/driver/core/state.h"
#include "server/emulator/driver/graphs/graph.h"

namespace tessera::emulator {

// One capture sequence. Guarded by Driver::graph_mutex.
struct Capture {
  uint64_t id = 0;
  uint64_t context = 0;
  GraphPtr graph;
  bool to_existing_graph = false;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id owner;
  bool invalidated = false;
  bool ended = false;
  std::weak_ptr<Stream> origin;
  std::vector<std::weak_ptr<Stream>> streams;  // the origin and those that joined
  std::vector<uint64_t> last_of_destroyed;  // the nodes with which streams that joined ended: they are to be joined all the same
};

// 900 when the calling thread may not make potentially unsafe calls now; the captures in the way are invalidated.
CUresult CheckUnsafeCall();
// 906 when `stream` is the legacy stream and a blocking stream of the context captures; that capture is invalidated.
CUresult CheckLegacyStream(const Context& context, const Stream& stream, bool invalidate = true);
// For calls that cannot be captured and touch `stream`: 900 or 901 when it captures, else CheckLegacyStream.
CUresult CheckNotCapturing(const Context& context, const Stream& stream);
// For queries and synchronisation of `stream`: 900 when it captures or the call is unsafe, 906 as above.
CUresult CheckStreamQuery(const Context& context, const Stream& stream);
// 907 when the event's last record is in a capture that goes on, which is invalidated if `invalidate`; 1 when it is in one
// that is over or invalid.
CUresult CheckEventOutsideCapture(Event& event, bool invalidate);
// A launch that fails its checks takes the capture of its stream with it.
void InvalidateCapture(const Stream& stream);
// Ends a capture, whatever state it is in; its graph stays. With Driver::graph_mutex held.
void EndCapture(Capture& capture);

// Gives the stream a command: as a node when it captures, else to run. `fence` (may be null) receives the completion, null
// when captured.
CUresult Enqueue(const ContextPtr& context, const StreamPtr& stream, CommandPtr command, FencePtr* fence = nullptr);
CUresult RecordEvent(const ContextPtr& context, const StreamPtr& stream, const EventPtr& event, unsigned flags);
CUresult WaitForEvent(const ContextPtr& context, const StreamPtr& stream, const EventPtr& event, unsigned flags);
bool IsCapturing(const Stream& stream);

// Ends and invalidates captures whose context goes away.
void ForgetCapturesOf(uint64_t context_handle);

}  // namespace tessera::emulator
