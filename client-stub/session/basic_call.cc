#include "client-stub/session/basic_call.h"

#include <algorithm>
#include <cstring>

#include "client-stub/process/error_log.h"
#include "client-stub/session/client.h"
#include "client-stub/session/host_function_calls.h"
#include "protocol/base/log.h"
#include "protocol/runtime/sticky_error.h"

namespace tessera {

BasicCall::BasicCall(const CallInfo& info, Session& session) : BasicCall(info, false, ThreadState::Current()) {
  Client& client = Client::Get();
  if (!client.plain()) BeginWatched(client);
  session_ = &session;
}

BasicCall::BasicCall(const CallInfo& info, const BasicCall& user) : BasicCall(info, *user.session_) { MoveTo(user); }

BasicCall::BasicCall(const CallInfo& info, const Context& context) : BasicCall(info, *context.session) {
  context_ = context.handle;
  if (info.deferred_errors) result_ = session_->deferred_errors().Take(thread_->number, &context);
}

void BasicCall::BeginWatched(Client& client) {
  if (Statistics* statistics = client.statistics()) {
    statistics->CountCall(info_);
    thread_->call = &info_;
  }
  if (client.trace() == nullptr) return;
  waits_before_ = thread_->waits;
  begun_ns_ = MonotonicNs();
}

bool BasicCall::FindContext() {
  if (info_.context == CallInfo::Context::kAny) {
    if (const Context* any = session_->contexts().AnyActive(-1)) ActIn(any->handle);
    return !context_.is_null();
  }
  return info_.context != CallInfo::Context::kRequired;
}

CUresult BasicCall::NoContext() const {
  return thread_->current() == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

BasicCall::~BasicCall() {
  const bool outermost = --thread_->call_depth == 0;
  if (begun_ns_ != 0) Client::Get().trace()->AddCall(info_, thread_->number, begun_ns_, thread_->waits - waits_before_);
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

Context* BasicCall::current_context() const {
  Context* const current = thread_->current();
  // A call that another one needs has made its own context current for a while (context_scope.h).
  const bool own = context_.is_null() || (current != nullptr && current->handle == context_);
  if (!moved_ && own) return current;
  return session_->contexts().Find(reinterpret_cast<CUcontext>(context_.value()));
}

HandleId BasicCall::owner_context() const {
  const Context* context = current_context();
  return context == nullptr || context_.is_null() ? HandleId() : context->owner().handle;
}

void BasicCall::ChangesNot(LastSequence* last) {
  changes_count_ = static_cast<int>(std::remove(changes_, changes_ + changes_count_, last) - changes_);
}

void BasicCall::NoteSent(uint64_t sequence) {
  if (Trace* trace = Client::Get().trace()) trace->AddSent(info_, *session_, sequence, thread_->number, begun_ns_);
  sequence_ = sequence;
}

bool BasicCall::GoesAside(std::span<const std::byte> record) const {
  if (!thread_->in_host_function || !info_.aside) return false;
  RecordHeader header;
  std::memcpy(&header, record.data(), sizeof(header));
  return header.call == info_.id;
}

CUresult BasicCall::RequestAside(std::span<const std::byte> record) {
  const CUresult result = session_->RequestAside(record, after_, &thread_->reply);
  if (Statistics* statistics = Client::Get().statistics()) {
    statistics->CountRoundTrip(info_, thread_->reply.payload().size());
  }
  return result;
}

HandleId BasicCall::Mint(HandleKind kind) {
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

void BasicCall::Adopt(HandleId id) {
  if (id.server_minted()) session_->handles().Adopt(id);
}

void BasicCall::Release(HandleId id) { session_->handles().Release(id); }

Encoder& BasicCall::Begin() {
  Encoder& encoder = thread_->encoder;
  encoder.Clear();
  encoder.Append(sizeof(RecordHeader));
  return encoder;
}

std::span<std::byte> BasicCall::CompleteRecord() {
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

CUresult BasicCall::SendAsync() {
  const std::span<std::byte> record = CompleteRecord();
  if (!ok()) return result_;
  if (capturing() || thread_->in_host_function || !Client::Get().plain()) [[unlikely]] {
    SendAsyncWatched(record);
  } else {
    result_ = session_->Append(record, &sequence_, std::span(changes_, static_cast<size_t>(changes_count_)));
  }
  if (ok() && !freed_.is_null()) session_->handles().Release(freed_);
  return result_;
}

CUresult BasicCall::SendAsyncWatched(std::span<std::byte> record) {
  Statistics* const statistics = Client::Get().statistics();
  if (statistics != nullptr) statistics->CountSent(info_, record.size());
  const WaitCounter counter(statistics, info_);
  if (capturing() || GetConfig().launch_blocking) {
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

CUresult BasicCall::SendAsyncIf(std::span<const SeenSequence> seen) {
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

CUresult BasicCall::SendAndWait(std::span<std::byte> record) {
  CUresult result = GoesAside(record) ? RequestAside(record) : Session::kBehind;
  // What stands in the ring still is not done: an answer to those who ask, and no reason to wait there.
  if (result == Session::kBehind && thread_->in_host_function && UnfinishedIsAnAnswer(info_)) return CUDA_ERROR_NOT_READY;
  if (result == Session::kBehind) {
    result = session_->Start(record, &thread_->reply, std::span(changes_, static_cast<size_t>(changes_count_)));
    if (result == CUDA_SUCCESS) {
      NoteSent(thread_->reply.sequence());
      ++thread_->waits;
      result = session_->Await(&thread_->reply);
    }
    if (Statistics* statistics = Client::Get().statistics()) {
      statistics->CountRoundTrip(info_, thread_->reply.payload().size());
    }
  }
  if (result == CUDA_SUCCESS) return result;
  if (capturing()) capture_failed_(*this, capture_stream_);
  return result;
}

CUresult BasicCall::SendSync(Decoder* reply) {
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

CUresult BasicCall::TakeDeferredError() {
  // Records of this thread run in order and their failures are reported in order: those of earlier ones came before the
  // reply that ended this call.
  return result_ = session_->deferred_errors().Take(thread_->number, current_context());
}

CUresult BasicCall::MalformedReply() {
  session_->ProtocolViolation(std::string("a malformed reply to ") + info_.name);
  return Fail(kServerGone);
}

void BasicCall::MoveTo(Session& session, const Context* context) {
  routed_ = true;
  if (session_ == &session) return;
  session_ = &session;
  moved_ = true;
  if (context == nullptr) context = session.contexts().AnyActive(-1);
  context_ = context == nullptr ? HandleId() : context->handle;
  if (ok() && info_.deferred_errors) result_ = session.deferred_errors().Take(thread_->number, context);
}

void BasicCall::MoveTo(const BasicCall& call) {
  session_ = call.session_;
  context_ = call.context_;
  routed_ = call.routed_;
  moved_ = call.moved_;
}

void BasicCall::ActIn(HandleId context) {
  if (context_ == context) return;
  context_ = context;
  moved_ = true;
}

CUdevice BasicCall::DeviceNumber(CUdevice device) {
  const int number = session_->devices().NumberOf(device);
  if (number >= 0) return number;
  if (SeveralServers() && Client::Get().SessionOfDevice(device) != nullptr) Fail(CUDA_ERROR_INVALID_DEVICE);
  return device;
}

CUmemLocation BasicCall::DeviceNumbers(CUmemLocation location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) location.id = DeviceNumber(location.id);
  return location;
}

CUmemAllocationProp BasicCall::DeviceNumbers(CUmemAllocationProp properties) {
  properties.location = DeviceNumbers(properties.location);
  return properties;
}

CUmemPoolProps BasicCall::DeviceNumbers(CUmemPoolProps properties) {
  properties.location = DeviceNumbers(properties.location);
  return properties;
}

CUmemAccessDesc BasicCall::DeviceNumbers(CUmemAccessDesc access) {
  access.location = DeviceNumbers(access.location);
  return access;
}

CUdevice BasicCall::Ordinal(int number) const { return session_->devices().OrdinalOf(number); }

CUmemAllocationProp BasicCall::Ordinals(CUmemAllocationProp properties) const {
  if (properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE) properties.location.id = Ordinal(properties.location.id);
  return properties;
}

}  // namespace tessera
