#include "client-stub/streams/stream_state.h"

#include <vector>

#include "client-stub/session/context.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"

namespace tessera {
namespace {

// Keys of special streams (StreamRef::key) cannot be handle values, which are below 2^47.
constexpr uint64_t kSpecialKey = uint64_t{1} << 63;

bool IsOwnStream(const BasicCall& call, CUstream stream) {
  return stream == CU_STREAM_PER_THREAD || (stream == nullptr && call.per_thread_stream());
}

}  // namespace

void EventInfo::Begin(HandleId its_context, unsigned its_flags, bool is_foreign) {
  context = its_context;
  flags = its_flags;
  foreign = is_foreign;
  recorded.store(is_foreign, std::memory_order_relaxed);  // of a foreign one nobody here knows
  named = changed = changed_aside = done = LastSequence();
}

bool EventInfo::KnownDone() const {
  const uint64_t seen = done.value();
  return seen != 0 && seen >= changed.value() && seen >= changed_aside.value() &&
         seen >= GraphRecords::Process().Last(context.session()) && !interprocess();
}

bool EventInfo::fresh() const {
  return changed.value() == 0 && changed_aside.value() == 0 && GraphRecords::Process().Last(context.session()) == 0 &&
         !interprocess();
}

bool StreamTable::Add(HandleId handle, const Context& context, unsigned flags, int priority) {
  return streams_.Insert(handle, [&](StreamInfo& info) {
    info.number = next_number_.fetch_add(1, std::memory_order_relaxed);
    info.context = context.handle;
    info.owner = context.owner().handle;
    info.device = context.device;
    info.flags = flags | (context.parent != nullptr ? CU_STREAM_NON_BLOCKING : 0);
    info.priority = priority;
    info.created = info.worked = info.held = info.passed = info.worked_aside = LastSequence();
  }) != nullptr;
}

void StreamTable::Erase(HandleId handle) {
  Captures().ForgetStream(handle.value());
  streams_.Erase(handle);
}

uint64_t StreamTable::SpecialNumber(HandleId context, uint32_t thread) {
  MutexLock lock(mutex_);
  uint64_t& number = special_[{context.value(), thread}];
  if (number == 0) number = next_number_.fetch_add(1, std::memory_order_relaxed);
  return number;
}

void StreamTable::ForgetContext(Session& session, HandleId context) {
  Captures().ForgetContext(context.value());
  session.polls().ForgetAll();
  std::vector<HandleId> ended;
  streams_.ForEach([&](HandleId handle, StreamInfo& info) {
    if (info.context == context) ended.push_back(handle);
  });
  for (HandleId handle : ended) {
    streams_.Erase(handle);
    session.handles().Release(handle);
  }
  ended.clear();
  Events().ForEach([&](HandleId handle, EventInfo& info) {
    if (info.context == context) ended.push_back(handle);
  });
  for (HandleId handle : ended) {
    Captures().ForgetEvent(handle.value());
    Events().Erase(handle);
    session.handles().Release(handle);
  }
  MutexLock lock(mutex_);
  special_.erase(special_.lower_bound({context.value(), 0}), special_.upper_bound({context.value(), UINT32_MAX}));
}

CUresult FindStream(BasicCall& call, CUstream stream, UsedStream* used) {
  used->id = HandleId(reinterpret_cast<uint64_t>(stream));
  const bool own = IsOwnStream(call, stream);
  if (own || stream == nullptr || stream == CU_STREAM_LEGACY) {
    const Context* context = call.thread().current();
    // A host function has no context, and may not ask for one's default stream.
    if (context == nullptr && call.thread().in_host_function) return CUDA_ERROR_NOT_PERMITTED;
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->active()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    // As driver 580: no stream of a green context waits for its default stream, and threads have none of their own there.
    const bool green = context->parent != nullptr;
    if (own && green) return CUDA_ERROR_INVALID_HANDLE;
    if (green) used->info.flags = CU_STREAM_NON_BLOCKING;
    used->info.context = context->handle;
    used->info.owner = context->owner().handle;
    used->info.device = context->device;
    used->info.number =
        own ? Streams().OwnNumber(context->handle, call.thread().number) : Streams().LegacyNumber(context->handle);
    used->ref = {kSpecialKey | used->info.number, context->handle.value(), !own, own};
    return CUDA_SUCCESS;
  }
  const StreamInfo* info = Streams().Find(used->id);
  if (info == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  used->info = *info;
  used->ref = {used->id.value(), info->context.value(), false, (info->flags & CU_STREAM_NON_BLOCKING) == 0};
  return CUDA_SUCCESS;
}

bool HasNoStreamOfTheThread(const BasicCall& call, CUstream stream) {
  if (!IsOwnStream(call, stream)) return false;
  const Context* context = call.current_context();
  return context != nullptr && context->parent != nullptr;
}

}  // namespace tessera
