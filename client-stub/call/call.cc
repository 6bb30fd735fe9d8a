#include "client-stub/call/call.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "client-stub/call/handle_errors.h"
#include "client-stub/graphs/device_graphs.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/process/error_log.h"
#include "client-stub/servers/library_copies.h"
#include "client-stub/session/client.h"
#include "client-stub/streams/capture_check.h"
#include "client-stub/streams/host_functions.h"
#include "client-stub/streams/idle_streams.h"
#include "client-stub/streams/stream_state.h"
#include "protocol/base/log.h"
#include "protocol/runtime/sticky_error.h"

namespace tessera {

std::atomic<bool> several_servers{false};

Call::Call(const CallInfo& info, bool per_thread_stream)
    : info_(info), per_thread_stream_(per_thread_stream), own_record_call_(info.id), thread_(&ThreadState::Current()) {
  ++thread_->call_depth;
  Client& client = Client::Get();
  if (!client.plain()) [[unlikely]] {
    if (Statistics* statistics = client.statistics()) {
      statistics->CountCall(info);
      thread_->call = &info;
    }
    if (client.trace() != nullptr) begun_ns_ = MonotonicNs();
  }
  session_ = client.session();
  if (info.context == CallInfo::Context::kUninitialized) return;
  if (!client.initialized()) {  // nor is it in a forked child
    result_ = CUDA_ERROR_NOT_INITIALIZED;
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

bool Call::FindContext() {
  if (info_.context == CallInfo::Context::kAny) {
    if (const Context* any = session_->contexts().AnyActive(-1)) ActIn(any->handle);
    return !context_.is_null();
  }
  return info_.context != CallInfo::Context::kRequired;
}

CUresult Call::NoContext() const {
  return thread_->current() == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

Call::~Call() {
  const bool outermost = --thread_->call_depth == 0;
  if (begun_ns_ != 0) Client::Get().trace()->AddCall(info_, thread_->number, begun_ns_);
  if (result_ == CUDA_SUCCESS) return;
  // A broken context stays broken, for the calls that are answered here as well, whichever way this one heard of it.
  if (IsStickyError(result_) && !failed_elsewhere_ && session_ != nullptr && !Client::Get().forked()) {
    const HandleId broken = object_context_.is_null() ? context_ : object_context_;
    Context* context = session_->contexts().Find(reinterpret_cast<CUcontext>(broken.value()));
    if (context != nullptr) session_->deferred_errors().Add(thread_->number, context, result_);
  }
  LogDebug("{} returned {}", info_.name, static_cast<int>(result_));
  for (int i = 0; i < minted_count_; ++i) session_->handles().Release(minted_[i]);
  // In a forked child the log may be locked for ever.
  if (outermost && result_ != CUDA_ERROR_NOT_READY && !Client::Get().forked()) ErrorLog::Process().Add(info_.name, result_);
}

Context* Call::current_context() const {
  Context* const current = thread_->current();
  // A call that another one needs has made its own context current for a while (context_scope.h).
  const bool own = context_.is_null() || (current != nullptr && current->handle == context_);
  if (!moved_ && own) return current;
  return session_->contexts().Find(reinterpret_cast<CUcontext>(context_.value()));
}

HandleId Call::owner_context() const {
  const Context* context = current_context();
  return context == nullptr || context_.is_null() ? HandleId() : context->owner().handle;
}

HandleId Call::Use(HandleKind kind, const void* handle, bool nullable, int error) {
  return Use(kind, reinterpret_cast<uint64_t>(handle), nullable, error);
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
    after_ = std::max({after_, event->changed.value(), LastGraphRecord(id.session()), question ? 0 : event->named.value()});
  }
  if (question) return;
  Changes(&event->named);
  if (AboutStreamsAndEvents(info_)) return;
  // A node of a graph, or a launch that records it (and may become a node).
  Changes(&event->changed);
  NoteGraphEvents();
}

bool Call::Changes(LastSequence* last) {
  if (changes_count_ == kChangesMax) return false;
  changes_[changes_count_++] = last;
  return true;
}

void Call::ChangesNot(LastSequence* last) {
  changes_count_ = static_cast<int>(std::remove(changes_, changes_ + changes_count_, last) - changes_);
}

void Call::NoteSent(uint64_t sequence) {
  if (Trace* trace = Client::Get().trace()) trace->AddSent(info_, *session_, sequence, thread_->number);
  sequence_ = sequence;
}

bool Call::GoesAside(std::span<const std::byte> record) const {
  if (!thread_->in_host_function || !info_.aside) return false;
  RecordHeader header;
  std::memcpy(&header, record.data(), sizeof(header));
  return header.call == info_.id;
}

CUresult Call::RequestAside(std::span<const std::byte> record) {
  const CUresult result = session_->RequestAside(record, after_, &thread_->reply);
  if (Statistics* statistics = Client::Get().statistics()) {
    statistics->CountRoundTrip(info_, thread_->reply.payload().size());
  }
  return result;
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
      capturing_ = true;
      capture_stream_ = stream;
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

HandleId Call::Free(HandleKind kind, const void* handle, bool nullable, int error) {
  return Free(kind, reinterpret_cast<uint64_t>(handle), nullable, error);
}

HandleId Call::Free(HandleKind kind, uint64_t handle, bool nullable, int error) {
  return freed_ = Use(kind, handle, nullable, error);
}

HandleId Call::Mint(HandleKind kind) {
  if (!ok()) return HandleId();
  if (minted_count_ == static_cast<int>(std::size(minted_))) {
    Fail(CUDA_ERROR_UNKNOWN);  // a mistake of ours, see the bound
    return HandleId();
  }
  const HandleId id = session_->handles().Mint(kind);
  if (id.is_null()) {
    Fail(CUDA_ERROR_OUT_OF_MEMORY);
    return HandleId();
  }
  return minted_[minted_count_++] = id;
}

void Call::Adopt(HandleId id) {
  if (id.server_minted()) session_->handles().Adopt(id);
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

void Call::Release(HandleId id) { session_->handles().Release(id); }

Encoder& Call::Begin() {
  Encoder& encoder = thread_->encoder;
  encoder.Clear();
  encoder.Append(sizeof(RecordHeader));
  return encoder;
}

std::span<std::byte> Call::CompleteRecord() {
  Encoder& encoder = thread_->encoder;
  encoder.AlignTo(kRecordAlignment);
  const std::span<std::byte> record = encoder.mutable_bytes();
  if (record.empty()) {
    Fail(CUDA_ERROR_OUT_OF_MEMORY);
    return {};
  }
  RecordHeader header{};
  header.call = record_call_ != 0 ? record_call_ : own_record_call_;
  record_call_ = 0;
  header.flags = per_thread_stream_ ? kPerThreadStream : 0;
  header.thread = thread_->number;
  header.context = context_.value();
  std::memcpy(record.data(), &header, sizeof(header));
  thread_->known_to_server = true;
  return record;
}

CUresult Call::SendAsync() {
  const std::span<std::byte> record = CompleteRecord();
  if (!ok()) return result_;
  if (capturing_ || thread_->in_host_function || !Client::Get().plain()) [[unlikely]] {
    SendAsyncWatched(record);
  } else {
    result_ = session_->Append(record, &sequence_, std::span(changes_, static_cast<size_t>(changes_count_)));
  }
  if (ok() && !freed_.is_null()) session_->handles().Release(freed_);
  return result_;
}

CUresult Call::SendAsyncWatched(std::span<std::byte> record) {
  Statistics* const statistics = Client::Get().statistics();
  if (statistics != nullptr) statistics->CountSent(info_, record.size());
  const WaitCounter counter(statistics, info_);
  if (capturing_ || GetConfig().launch_blocking) {
    result_ = SendAndWait(record);
  } else {
    result_ = GoesAside(record) ? RequestAside(record) : Session::kBehind;
    if (result_ == Session::kBehind) {
      uint64_t sequence = 0;
      result_ = session_->Append(record, &sequence, std::span(changes_, static_cast<size_t>(changes_count_)));
      if (ok()) NoteSent(sequence);
    }
  }
  return result_;
}

CUresult Call::SendAsyncIf(std::span<const SeenSequence> seen) {
  const std::span<std::byte> record = CompleteRecord();
  if (!ok()) return result_;
  Statistics* const statistics = Client::Get().statistics();
  const WaitCounter counter(statistics, info_);
  uint64_t sequence = 0;
  const CUresult result = session_->AppendIf(seen, record, &sequence, std::span(changes_, static_cast<size_t>(changes_count_)));
  if (result == Session::kNotAppended) return result;
  if (statistics != nullptr) statistics->CountSent(info_, record.size());
  result_ = result;
  if (ok()) NoteSent(sequence);
  return result_;
}

CUresult Call::SendAndWait(std::span<std::byte> record) {
  CUresult result = GoesAside(record) ? RequestAside(record) : Session::kBehind;
  // What stands in the ring still is not done: an answer to those who ask, and no reason to wait there.
  if (result == Session::kBehind && thread_->in_host_function && UnfinishedIsAnAnswer(info_)) return CUDA_ERROR_NOT_READY;
  if (result == Session::kBehind) {
    result = session_->Start(record, &thread_->reply, std::span(changes_, static_cast<size_t>(changes_count_)));
    if (result == CUDA_SUCCESS) {
      NoteSent(thread_->reply.sequence());
      result = session_->Await(&thread_->reply);
    }
    if (Statistics* statistics = Client::Get().statistics()) {
      statistics->CountRoundTrip(info_, thread_->reply.payload().size());
    }
  }
  if (result == CUDA_SUCCESS) return result;
  if (capturing_) NoteCaptureFailure(*this, capture_stream_);
  return result;
}

CUresult Call::SendSync(Decoder* reply) {
  const std::span<std::byte> record = CompleteRecord();
  if (!ok()) return result_;
  Statistics* const statistics = Client::Get().statistics();
  if (statistics != nullptr) statistics->CountSent(info_, record.size());
  const WaitCounter counter(statistics, info_);
  result_ = SendAndWait(record);
  if (!ok()) return result_;
  if (!freed_.is_null()) session_->handles().Release(freed_);
  *reply = Decoder(thread_->reply.payload());
  return result_;
}

CUresult Call::TakeDeferredError() {
  // Records of this thread run in order and their failures are reported in order: those of earlier ones came before the
  // reply that ended this call.
  return result_ = session_->deferred_errors().Take(thread_->number, current_context());
}

void Call::AfterWait() {
  ClientMemory& memory = ClientMemory::Of(*session_);
  memory.mirrors().ReconcileAll();
  memory.pools().AfterWait(*this);
}

CUresult Call::MalformedReply() {
  session_->ProtocolViolation(std::string("a malformed reply to ") + info_.name);
  return Fail(kServerGone);
}

CUresult Unsupported(const CallInfo& info) {
  static Mutex* const mutex = new Mutex;
  static auto* const told = new std::set<uint32_t>;
  if (Statistics* statistics = Client::Get().statistics()) statistics->CountCall(info);
  if (!Client::Get().initialized()) return CUDA_ERROR_NOT_INITIALIZED;  // nor is a forked child
  ErrorLog::Process().Add(info.name, CUDA_ERROR_NOT_SUPPORTED);
  MutexLock lock(*mutex);
  if (told->insert(info.id).second) LogInfo("{} is not supported: {}", info.name, info.reason);
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace tessera
