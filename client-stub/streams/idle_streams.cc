#include "client-stub/streams/idle_streams.h"

#include <algorithm>

#include "client-stub/process/config.h"
#include "client-stub/session/context.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/streams/stream_state.h"

namespace tessera {
namespace {

bool IsDefault(HandleId id) { return id.value() <= reinterpret_cast<uint64_t>(CU_STREAM_LEGACY); }
bool IsSpecial(HandleId id) { return id.value() <= reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD); }

// What the work of a stream counts for: of its own, and of its context; either may be null.
struct Noted {
  LastSequence* own = nullptr;
  LastSequence* of_context = nullptr;
};

Noted NotedFor(BasicCall& call, HandleId id, const Context* of_special) {
  StreamInfo* const info = IsSpecial(id) ? nullptr : Streams().Find(id);
  if (!IsSpecial(id) && info == nullptr) return {};
  const CUcontext handle = info == nullptr ? nullptr : reinterpret_cast<CUcontext>(info->context.value());
  Context* const context = info == nullptr ? const_cast<Context*>(of_special) : call.session().contexts().Find(handle);
  if (info != nullptr && (info->flags & CU_STREAM_NON_BLOCKING) != 0) return {&info->held, nullptr};
  if (context == nullptr) return {};
  const bool legacy = IsDefault(id) && !(id.is_null() && call.per_thread_stream());
  return {info == nullptr ? nullptr : &info->held, legacy ? &context->default_work : &context->blocking_work};
}

}  // namespace

void NoteStreamWork(BasicCall& call, CUstream stream) {
  const Noted noted = NotedFor(call, HandleId(reinterpret_cast<uint64_t>(stream)), call.current_context());
  // What goes past the ring has no place among the others.
  bool all = !call.thread().in_host_function;
  if (noted.own != nullptr) all = call.Changes(noted.own) && all;
  if (noted.of_context != nullptr) all = call.Changes(noted.of_context) && all;
  if (!all) NoteUnnamedWork(call);
}

void NoteUnnamedWork(BasicCall& call) {
  UnnamedWork::Process().given.Raise(1);
  // Through the append lock: copies that were appended before can be seen now, later ones see the above.
  call.session().last_sequence();
}

void TakeBackStreamWork(BasicCall& call, const UsedStream& stream) {
  const Noted noted = NotedFor(call, stream.id, call.current_context());
  call.ChangesNot(noted.own);
  call.ChangesNot(noted.of_context);
}

void NoteSynchronized(BasicCall& call, const UsedStream& stream) {
  if (call.sequence() == 0) return;
  if (!IsSpecial(stream.id)) {
    if (StreamInfo* const info = Streams().Find(stream.id)) info->passed.Raise(call.sequence());
    return;
  }
  Context* const context = call.current_context();
  const bool legacy = IsDefault(stream.id) && !(stream.id.is_null() && call.per_thread_stream());
  if (legacy && context != nullptr) context->default_done.Raise(call.sequence());
}

void NoteSynchronized(BasicCall& call, Context& context) { context.all_done.Raise(call.sequence()); }

std::optional<SeenIdle> KnownIdle(BasicCall& call, const UsedStream& stream) {
  const SeenSequence unnamed = SeenSequence::Of(UnnamedWork::Process().given);
  if (unnamed.value != 0 || SeveralServers() || GetConfig().launch_blocking) return std::nullopt;
  const Context* const context = call.session().contexts().Find(reinterpret_cast<CUcontext>(stream.info.context.value()));
  if (context == nullptr || context->parent != nullptr) return std::nullopt;
  // What was given is looked at before what was done: both only grow.
  if (!IsSpecial(stream.id) && (stream.info.flags & CU_STREAM_NON_BLOCKING) != 0) {
    const StreamInfo* const info = Streams().Find(stream.id);
    if (info == nullptr) return std::nullopt;
    const SeenSequence held = SeenSequence::Of(info->held);
    if (held.value > std::max(context->all_done.value(), info->passed.value())) return std::nullopt;
    return SeenIdle{unnamed, held, held};
  }
  const SeenSequence blocking = SeenSequence::Of(context->blocking_work);
  const SeenSequence legacy = SeenSequence::Of(context->default_work);
  const uint64_t all_done = context->all_done.value();
  if (blocking.value > all_done || legacy.value > std::max(all_done, context->default_done.value())) return std::nullopt;
  return SeenIdle{unnamed, blocking, legacy};
}

}  // namespace tessera
