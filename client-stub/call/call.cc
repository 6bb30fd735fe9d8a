#include "client-stub/call/call.h"

#include <algorithm>

#include "client-stub/code/library_copies.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/process/error_log.h"
#include "client-stub/process/guest_thread.h"
#include "client-stub/session/client.h"
#include "client-stub/session/device_graph_table.h"
#include "client-stub/session/host_function_calls.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/host_functions.h"
#include "client-stub/streams/idle_streams.h"
#include "client-stub/streams/stream_state.h"
#include "generated/messages/handle_errors.h"
#include "protocol/base/first_time.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

// The process ends: calls under way go on, with the calls that they make, and so do the library's own threads, which bring pages
// of managed memory to threads of the program.
bool GoesOn(const Client& client, const ThreadState& thread) {
  if (!client.calls_ended() || client.forked()) return false;
  return thread.call_depth > 1 || (is_guest_thread && !thread.in_host_function);
}

}  // namespace

Call::Call(const CallInfo& info, bool per_thread_stream) : BasicCall(info, per_thread_stream, ThreadState::Current()) {
  Client& client = Client::Get();
  if (!client.plain()) [[unlikely]]
    BeginWatched(client);
  session_ = client.session();
  if (info.context == CallInfo::Context::kUninitialized) return;
  if (!client.initialized() && !GoesOn(client, *thread_)) {  // nor is it in a forked child
    result_ = client.NotInitialized();
    return;
  }
  if (thread_->in_host_function && !AllowedInHostFunction(info)) {
    result_ = CUDA_ERROR_NOT_PERMITTED;
    return;
  }
  const Context* context = thread_->current();
  if (context != nullptr && context->active()) context_ = context->handle;
  if (context != nullptr && SeveralServers()) session_ = context->session;
  if (context_.is_null() && !FindContext()) {
    result_ = NoContext();
    return;
  }
  if (info.capture == CallInfo::Capture::kUnsafe) {
    result_ = CheckCapture(info, *thread_);
    if (result_ != CUDA_SUCCESS) return;
  }
  if (info.deferred_errors) result_ = session_->deferred_errors().Take(thread_->number, context);
}

HandleId Call::Use(HandleKind kind, uint64_t handle, bool nullable, int error) {
  if (!ok() || (handle == 0 && nullable)) return HandleId();
  const HandleId id = kind == HandleKind::kGraphExec ? DeviceGraphs::Process().IdOf(handle) : HandleId(handle);
  if (session_->handles().IsLive(id, kind)) {
    if (kind == HandleKind::kStream || kind == HandleKind::kEvent) NoteNamed(kind, id);
    if (kind != HandleKind::kContext) return id;
    const Context* context = session_->contexts().Find(reinterpret_cast<CUcontext>(handle));
    if (context != nullptr && context->active()) return id;
    Fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return HandleId();
  }
  if (SeveralServers()) {
    if (const HandleId copy = UseCopy(kind, id); !copy.is_null() || !ok()) return copy;
  }
  if (kind == HandleKind::kContext && session_->contexts().Find(reinterpret_cast<CUcontext>(handle)) != nullptr) {
    Fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return HandleId();
  }
  Fail(error != 0 ? static_cast<CUresult>(error) : HandleError(kind));
  return HandleId();
}

void Call::NoteNamed(HandleKind kind, HandleId id) {
  const bool question = IsQuestion();
  const bool in_host_function = thread_->in_host_function;
  if (question && !in_host_function) return;
  if (kind == HandleKind::kStream) {
    StreamInfo* stream = Streams().Find(id);
    if (stream == nullptr) return;
    if (in_host_function) after_ = std::max({after_, stream->worked.value(), question ? 0 : stream->created.value()});
    if (!question) Changes(&stream->worked);
    return;
  }
  EventInfo* event = Events().Find(id);
  if (event == nullptr) return;
  if (in_host_function) {
    const uint64_t graph = GraphRecords::Process().Last(id.session());
    after_ = std::max({after_, event->changed.value(), graph, question ? 0 : event->named.value()});
  }
  if (question) return;
  Changes(&event->named);
  if (AboutStreamsAndEvents(info_)) return;
  // A node of a graph, or a launch that records it (and may become a node).
  Changes(&event->changed);
  GraphRecords::Process().NoteEvents();
}

HandleId Call::UseStream(CUstream stream) {
  if (!ok()) return HandleId();
  const auto value = reinterpret_cast<uint64_t>(stream);
  const bool special = value <= reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD);
  // What is kept of a stream is kept as long as its handle is live: one look instead of the three of Use(), NoteNamed() and,
  // where the stream waits for no other, NoteStreamWork().
  if (HandleId named(value); !special && named.session() == session_->index() && !IsQuestion() && !thread_->in_host_function &&
                             (info_.capture != CallInfo::Capture::kLegal || Captures().idle())) {
    if (StreamInfo* const known = Streams().Find(named)) [[likely]] {
      Changes(&known->worked);
      stream_owner_ = known->owner;
      if (context_.is_null() && info_.context == CallInfo::Context::kStream) [[unlikely]]
        ActIn(known->context);
      if ((known->flags & CU_STREAM_NON_BLOCKING) == 0) {
        NoteStreamWork(*this, stream);
      } else if (!Changes(&known->held)) {
        NoteUnnamedWork(*this);
      }
      return named;
    }
  }
  // A default stream is that of the current context, which has no part in a call that is for another server. Threads have none of
  // their own in a green context.
  if (special && (moved_ || HasNoStreamOfTheThread(*this, stream))) Fail(CUDA_ERROR_INVALID_HANDLE);
  // A host function's work goes past the ring: known before it is looked what stands there (idle_streams.h).
  if (ok() && !IsQuestion()) NoteStreamWork(*this, stream);
  const HandleId id = special ? HandleId(value) : Use(HandleKind::kStream, value);
  if (ok() && context_.is_null() && info_.context == CallInfo::Context::kStream) {
    const StreamInfo* const known = special ? nullptr : Streams().Find(id);
    if (known != nullptr) ActIn(known->context);
    if (special) Fail(NoContext());
  }
  if (!ok()) return HandleId();
  if (info_.capture == CallInfo::Capture::kLegal) {
    bool capturing = false;
    const CUresult legal = CheckStreamUse(*this, stream, &capturing);
    if (legal != CUDA_SUCCESS) {
      Fail(legal);
      return HandleId();
    }
    if (capturing) {
      BecomesNode(stream, &NoteCaptureFailure);
    }
  }
  return id;
}

HandleId Call::StreamOwner(HandleId stream) const {
  if (!stream_owner_.is_null()) return stream_owner_;
  if (stream.value() <= reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD)) return owner_context();
  const StreamInfo* const known = Streams().Find(stream);
  return known == nullptr ? HandleId() : known->owner;
}

HandleId Call::Free(HandleKind kind, uint64_t handle, bool nullable, int error) {
  return freed_ = Use(kind, handle, nullable, error);
}

HandleId Call::UseCopy(HandleKind kind, HandleId id) {
  if (kind != id.kind() || id.session() == session_->index()) return HandleId();
  HandleId copy;
  CUresult result = CUDA_SUCCESS;
  if (kind == HandleKind::kLibrary) result = LibraryCopies::Process().LibraryIn(*session_, id, &copy);
  if (kind == HandleKind::kKernel) result = LibraryCopies::Process().KernelIn(*session_, id, &copy);
  if (result != CUDA_SUCCESS) Fail(result);
  return copy;
}

void Call::AfterWait() {
  ClientMemory& memory = session_->memory();
  memory.mirrors().ReconcileAll();
  memory.pools().AfterWait(*this);
}

bool UseStreamInfo(Call& call, CUstream stream, UsedStream* used) {
  call.UseStream(stream);
  if (!call.ok()) return false;
  if (call.Fail(FindStream(call, stream, used)) != CUDA_SUCCESS) return false;
  call.UseContextOf(used->info.context);
  return true;
}

CUresult Unsupported(const CallInfo& info) {
  if (Statistics* statistics = Client::Get().statistics()) statistics->CountCall(info);
  if (!Client::Get().initialized()) return Client::Get().NotInitialized();  // nor is a forked child
  ErrorLog::Process().Add(info.name, CUDA_ERROR_NOT_SUPPORTED);
  if (FirstTime(fmt::format("{} is not supported", info.name))) LogInfo("{} is not supported: {}", info.name, info.reason);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace tessera
