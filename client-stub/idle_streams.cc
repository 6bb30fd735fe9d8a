#include "client-stub/idle_streams.h"

#include <algorithm>
#include <atomic>

#include "client-stub/context.h"
#include "client-stub/session.h"
#include "client-stub/stream_state.h"
#include "client-stub/thread_state.h"

namespace tessera {
namespace {

// Some stream may have been given work that was not noted.
std::atomic<bool> unknown{false};

bool IsDefault(HandleId id) { return id.value() <= reinterpret_cast<uint64_t>(CU_STREAM_LEGACY); }
bool IsSpecial(HandleId id) { return id.value() <= reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD); }

// What the work of a stream counts for: of its own, and of its context; either may be null.
struct Noted {
  LastSequence* own = nullptr;
  LastSequence* of_context = nullptr;
};

Noted NotedFor(Call& call, HandleId id, const Context* of_special) {
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

void NoteStreamWork(Call& call, CUstream stream) {
  const Noted noted = NotedFor(call, HandleId(reinterpret_cast<uint64_t>(stream)), call.current_context());
  // What goes past the ring has no place among the others.
  bool all = !call.thread().in_host_function;
  if (noted.own != nullptr) all = call.Changes(noted.own) && all;
  if (noted.of_context != nullptr) all = call.Changes(noted.of_context) && all;
  if (!all) NoteUnnamedWork();
}

void NoteUnnamedWork() { unknown.store(true, std::memory_order_seq_cst); }

void TakeBackStreamWork(Call& call, const UsedStream& stream) {
  const Noted noted = NotedFor(call, stream.id, call.current_context());
  call.ChangesNot(noted.own);
  call.ChangesNot(noted.of_context);
}

void NoteSynchronized(Call& call, const UsedStream& stream) {
  if (call.sequence() == 0) return;
  if (!IsSpecial(stream.id)) {
    if (StreamInfo* const info = Streams().Find(stream.id)) info->passed.Raise(call.sequence());
    return;
  }
  Context* const context = call.current_context();
  const bool legacy = IsDefault(stream.id) && !(stream.id.is_null() && call.per_thread_stream());
  if (legacy && context != nullptr) context->default_done.Raise(call.sequence());
}

void NoteSynchronized(Call& call, Context& context) { context.all_done.Raise(call.sequence()); }

bool KnownIdle(Call& call, const UsedStream& stream) {
  if (unknown.load(std::memory_order_seq_cst) || SeveralServers()) return false;
  const Context* const context = call.session().contexts().Find(reinterpret_cast<CUcontext>(stream.info.context.value()));
  if (context == nullptr || context->parent != nullptr) return false;
  const uint64_t all_done = context->all_done.value();
  if (!IsSpecial(stream.id) && (stream.info.flags & CU_STREAM_NON_BLOCKING) != 0) {
    return stream.info.held.value() <= std::max(all_done, stream.info.passed.value());
  }
  return context->blocking_work.value() <= all_done &&
         context->default_work.value() <= std::max(all_done, context->default_done.value());
}

}  // namespace tessera
