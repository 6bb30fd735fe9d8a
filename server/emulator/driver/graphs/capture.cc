#include "server/emulator/driver/graphs/capture.h"

#include <algorithm>

#include "server/emulator/driver/core/event_commands.h"
#include "server/emulator/driver/core/shared_event.h"

namespace tessera::emulator {
namespace {

using GraphLock = std::unique_lock<std::recursive_mutex>;

std::vector<std::shared_ptr<Capture>> ActiveCaptures() {
  std::vector<std::shared_ptr<Capture>> captures;
  for (const ContextPtr& context : GetDriver().contexts.All()) {
    for (const StreamPtr& stream : context->streams()) {
      if (stream->capture != nullptr && std::find(captures.begin(), captures.end(), stream->capture) == captures.end()) {
        captures.push_back(stream->capture);
      }
    }
  }
  return captures;
}

void Join(const StreamPtr& stream, const std::shared_ptr<Capture>& capture) {
  stream->capture = capture;
  stream->capture_dependencies.clear();
  capture->streams.push_back(stream);
}

void AddUnique(std::vector<uint64_t>& to, const std::vector<uint64_t>& from) {
  for (uint64_t handle : from) {
    if (std::find(to.begin(), to.end(), handle) == to.end()) to.push_back(handle);
  }
}

}  // namespace

bool IsCapturing(const Stream& stream) {
  if (GetDriver().active_captures == 0) return false;
  GraphLock lock(GetDriver().graph_mutex);
  return stream.capture != nullptr;
}

CUresult CheckUnsafeCall() {
  if (GetDriver().active_captures == 0) return CUDA_SUCCESS;
  const CUstreamCaptureMode thread_mode = GetThread().capture_mode;
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  GraphLock lock(GetDriver().graph_mutex);
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : ActiveCaptures()) {
    const bool own = capture->owner == std::this_thread::get_id() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool others = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!own && !others) continue;
    capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult CheckLegacyStream(const Context& context, const Stream& stream, bool invalidate) {
  if (!stream.is_legacy() || GetDriver().active_captures == 0) return CUDA_SUCCESS;
  GraphLock lock(GetDriver().graph_mutex);
  CUresult result = CUDA_SUCCESS;
  for (const StreamPtr& other : context.streams()) {
    if (other->capture == nullptr || other->type() != Stream::Type::kBlocking) continue;
    if (invalidate) other->capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

CUresult CheckNotCapturing(const Context& context, const Stream& stream) {
  if (GetDriver().active_captures == 0) return CUDA_SUCCESS;
  GraphLock lock(GetDriver().graph_mutex);
  if (stream.capture != nullptr) {
    if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream.capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CheckLegacyStream(context, stream);
}

CUresult CheckStreamQuery(const Context& context, const Stream& stream) {
  if (GetDriver().active_captures == 0) return CUDA_SUCCESS;
  GraphLock lock(GetDriver().graph_mutex);
  if (stream.capture != nullptr) {
    stream.capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  RETURN_ON_ERROR(CheckLegacyStream(context, stream));
  return CheckUnsafeCall();
}

CUresult CheckEventOutsideCapture(Event& event, bool invalidate) {
  GraphLock lock(GetDriver().graph_mutex);
  if (event.capture == nullptr) return CUDA_SUCCESS;
  if (event.capture->ended || event.capture->invalidated) return CUDA_ERROR_INVALID_VALUE;
  if (invalidate) event.capture->invalidated = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

void InvalidateCapture(const Stream& stream) {
  if (GetDriver().active_captures == 0) return;
  GraphLock lock(GetDriver().graph_mutex);
  if (stream.capture != nullptr) stream.capture->invalidated = true;
}

void EndCapture(Capture& capture) {
  capture.ended = true;
  for (const auto& weak : capture.streams) {
    const StreamPtr stream = weak.lock();
    if (stream == nullptr || stream->capture.get() != &capture) continue;
    stream->capture_dependencies.clear();
    stream->capture = nullptr;
  }
  --GetDriver().active_captures;
}

CUresult Enqueue(const ContextPtr& context, const StreamPtr& stream, CommandPtr command, FencePtr* fence) {
  if (GetDriver().active_captures != 0) {
    GraphLock lock(GetDriver().graph_mutex);
    if (const auto capture = stream->capture) {
      if (fence != nullptr) *fence = nullptr;
      if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      const CUgraphNodeType type = command->type();
      const GraphNodePtr node = capture->graph->Add(type, std::move(command), stream->capture_dependencies);
      stream->capture_dependencies = {node->handle};
      return CUDA_SUCCESS;
    }
    RETURN_ON_ERROR(CheckLegacyStream(*context, *stream));
  }
  RETURN_ON_ERROR(context->local_memory().Raise(command->local_bytes()));
  stream->WaitForRoom();
  FencePtr done = context->Submit(stream, std::move(command));
  if (fence != nullptr) *fence = std::move(done);
  return CUDA_SUCCESS;
}

CUresult RecordEvent(const ContextPtr& context, const StreamPtr& stream, const EventPtr& event, unsigned flags) {
  if (GetDriver().active_captures != 0) {
    GraphLock lock(GetDriver().graph_mutex);
    if (const auto capture = stream->capture) {
      if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      if ((flags & CU_EVENT_RECORD_EXTERNAL) != 0) {
        CUevent handle = nullptr;
        for (const auto& [candidate, object] : GetDriver().events.Entries()) {
          if (object == event) handle = reinterpret_cast<CUevent>(candidate);
        }
        return Enqueue(context, stream, std::make_shared<EventRecordCommand>(event, handle));
      }
      event->capture = capture;
      event->capture_dependencies = stream->capture_dependencies;
      return CUDA_SUCCESS;
    }
    RETURN_ON_ERROR(CheckLegacyStream(*context, *stream));
  }
  if ((flags & CU_EVENT_RECORD_EXTERNAL) != 0) return CUDA_ERROR_ILLEGAL_STATE;
  stream->WaitForRoom();
  CommandPtr record = std::make_shared<EmptyCommand>();
  if (event->shared() != nullptr) record = std::make_shared<SharedRecordCommand>(event->shared(), event->shared()->BeginRecord());
  event->SetRecord(context->Submit(stream, std::move(record)));
  GraphLock lock(GetDriver().graph_mutex);
  event->capture = nullptr;
  return CUDA_SUCCESS;
}

CUresult WaitForEvent(const ContextPtr& context, const StreamPtr& stream, const EventPtr& event, unsigned flags) {
  GraphLock graph_lock(GetDriver().graph_mutex);
  const std::shared_ptr<Capture> recorded = event->capture;
  graph_lock.unlock();
  if (GetDriver().active_captures != 0 || recorded != nullptr) {
    GraphLock lock(GetDriver().graph_mutex);
    const auto capture = stream->capture;
    if (capture != nullptr && capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (recorded != nullptr) {
      if (recorded->ended || recorded->invalidated) return CUDA_ERROR_INVALID_VALUE;
      if (capture == nullptr && stream->is_legacy()) {
        recorded->invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
      if (capture == nullptr) Join(stream, recorded);
      if (capture != nullptr && capture != recorded) {
        capture->invalidated = recorded->invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
      }
      AddUnique(stream->capture_dependencies, event->capture_dependencies);
      return CUDA_SUCCESS;
    }
    if (capture != nullptr) {
      if ((flags & CU_EVENT_WAIT_EXTERNAL) != 0) {
        CUevent handle = nullptr;
        for (const auto& [candidate, object] : GetDriver().events.Entries()) {
          if (object == event) handle = reinterpret_cast<CUevent>(candidate);
        }
        return Enqueue(context, stream, std::make_shared<EventWaitCommand>(event, handle));
      }
      // An event that was never recorded is complete; one recorded outside is a dependency a graph cannot have.
      if (event->record() == nullptr) return CUDA_SUCCESS;
      capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    RETURN_ON_ERROR(CheckLegacyStream(*context, *stream));
  }
  if ((flags & CU_EVENT_WAIT_EXTERNAL) != 0) return CUDA_ERROR_ILLEGAL_STATE;
  stream->WaitForRoom();
  if (const auto& shared = event->shared(); shared != nullptr) {
    context->Submit(stream, std::make_shared<SharedWaitCommand>(shared, shared->newest()));
    return CUDA_SUCCESS;
  }
  FencePtr record = event->record();
  if (record == nullptr || record->done()) return CUDA_SUCCESS;
  context->Submit(stream, std::make_shared<EmptyCommand>(), {std::move(record)});
  return CUDA_SUCCESS;
}

void ForgetCapturesOf(uint64_t context_handle) {
  if (GetDriver().active_captures == 0) return;
  GraphLock lock(GetDriver().graph_mutex);
  for (const auto& capture : ActiveCaptures()) {
    if (capture->context != context_handle) continue;
    capture->invalidated = true;
    EndCapture(*capture);
    if (!capture->to_existing_graph) DestroyGraph(capture->graph);
  }
}

}  // namespace tessera::emulator
