// The contexts of this process as the stub knows them. Many cuCtx* calls answer from them without asking the server.
//
// Context records live as long as their session (a process makes few), so a Context* may be kept; `state` says whether it
// can be used. The handle an application holds is `handle` (a HandleId of kind kContext); the worker knows it by the same
// value.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "client-stub/session/last_sequence.h"
#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

class Session;

// Per-context values that libraries keep with the driver (table CONTEXT_LOCAL_STORAGE): key -> value and destructor.
// Any thread. Semantics measured on a real driver: a key that exists keeps its value (400), a missing key is 400.
class LocalStorage {
 public:
  using Destructor = void (*)(CUcontext context, void* key, void* value);

  CUresult Put(void* key, void* value, Destructor destructor) EXCLUDES(mutex_);
  CUresult Remove(void* key) EXCLUDES(mutex_);  // without calling the destructor
  CUresult Get(void* key, void** value) EXCLUDES(mutex_);
  // Takes out every entry, one at a time, and calls its destructor without a lock: it may call any of these functions.
  void DestroyAll(CUcontext context) EXCLUDES(mutex_);

 private:
  struct Entry {
    void* key;
    void* value;
    Destructor destructor;
  };
  Mutex mutex_;
  std::vector<Entry> entries_ GUARDED_BY(mutex_);  // a handful: one per copy of cudart, and a few of cuBLAS
};

// cuCtxGetApiVersion of contexts made by the functions in use since CUDA 3.2.
inline constexpr unsigned kContextApiVersion = 3020;

struct Context {
  enum class State : uint8_t {
    kInactive,  // a primary context that nobody retains: its handle is valid, but using it gives 709
    kActive,
    kDestroyed,  // by cuCtxDestroy; never comes back
  };

  HandleId handle;
  Session* session = nullptr;
  CUdevice device = 0;  // its ordinal
  bool primary = false;
  // Of a context made from a green context (`green`): a share of the multiprocessors of `parent`, the device's primary context.
  // `parent` owns everything made in this context, except streams. Otherwise null.
  HandleId green;
  Context* parent = nullptr;
  // cuCtxGetId: from 1, unique in the process, never used again. A primary context that comes back has a new number.
  std::atomic<uint64_t> number{0};
  unsigned api_version = 0;
  // cuCtxGetFlags; and of a primary context, cuDevicePrimaryCtxGetState.
  std::atomic<unsigned> flags{0};
  std::atomic<unsigned> primary_flags{0};
  std::atomic<State> state{State::kInactive};
  // A sticky asynchronous failure: every later call in this context returns it. CUDA_SUCCESS: none.
  std::atomic<int> sticky_error{0};
  LocalStorage storage;
  // The last records that gave work to the default stream, and to streams that wait for it; and up to which record all work of
  // the default stream, and of the whole context, was seen done (idle_streams.h).
  LastSequence default_work;
  LastSequence blocking_work;
  LastSequence default_done;
  LastSequence all_done;

  // The context that owns memory, modules and events made in this one.
  const Context& owner() const { return parent == nullptr ? *this : *parent; }
  Context& owner() { return parent == nullptr ? *this : *parent; }

  CUcontext object() const { return reinterpret_cast<CUcontext>(handle.value()); }
  bool active() const { return state.load(std::memory_order_acquire) == State::kActive; }

  // Calls that retain, release or reset a primary context hold it while they ask the server.
  Mutex primary_mutex;
  int retain_count GUARDED_BY(primary_mutex) = 0;  // a reset leaves it alone, as natively
  bool was_active GUARDED_BY(primary_mutex) = false;
  // cuCtxAttach and cuCtxDetach of a context that is not primary.
  std::atomic<int> usage_count{1};

  // Limits that the driver reported (cuCtxGetLimit), until one is set.
  Mutex limits_mutex;
  std::map<int, size_t> limits GUARDED_BY(limits_mutex);
};

// All contexts of one session. Any thread.
class ContextTable {
 public:
  ContextTable(Session& session, HandleAllocator& handles) : session_(session), handles_(handles) {}

  // The context of a handle, in any state, also kInactive and kDestroyed: the caller decides. Null: the value never was a
  // context.
  Context* Find(CUcontext context) const EXCLUDES(mutex_);
  // The primary context of a device, made (inactive) on first use. `device` is a valid ordinal. Null: out of memory.
  Context* Primary(CUdevice device) EXCLUDES(mutex_);
  // An active context, preferably on this device, for calls that name an object of the session but no context. Null: none is
  // active.
  Context* AnyActive(CUdevice device) const EXCLUDES(mutex_);
  // Adds a context that was created under `handle`. It is active.
  Context* Add(HandleId handle, CUdevice device, unsigned flags, unsigned api_version) EXCLUDES(mutex_);

  // As Add, for the context that a green context stands for; `primary` is active.
  Context* AddGreen(HandleId handle, HandleId green, Context& primary) EXCLUDES(mutex_);
  // The context of a green context, in any state; null for anything else.
  Context* FindGreen(HandleId green) const EXCLUDES(mutex_);
  // The contexts of green contexts that exist on the device of a primary context.
  std::vector<Context*> GreensOf(const Context& primary) const EXCLUDES(mutex_);

  // A primary context was retained for the first time, and becomes active. It gets a new number if it was active before.
  void Activate(Context* context) REQUIRES(context->primary_mutex);
  // Ends a context after the server did, in two steps. Deactivate() makes it unusable (a primary context inactive, any other
  // destroyed), and forgets cached limits and the sticky error. Finish() tells the listeners and calls the destructors of its
  // local storage. These may make any call, so the caller holds no lock.
  void Deactivate(Context* context);
  void Finish(Context* context) EXCLUDES(mutex_);

  // `ended` is called when a context has ended, on the thread that ended it, without locks. It drops what belonged to the context
  // (streams, events, modules ...) and releases their handles. Register it before the first context is made, or with the first
  // object of a kind. A listener is never removed.
  void OnEnd(std::function<void(const Context& context)> ended) EXCLUDES(mutex_);

 private:
  Session& session_;
  HandleAllocator& handles_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Context>> records_ GUARDED_BY(mutex_);
  std::map<uint64_t, Context*> contexts_ GUARDED_BY(mutex_);
  std::vector<Context*> primaries_ GUARDED_BY(mutex_);
  std::vector<std::function<void(const Context&)>> listeners_ GUARDED_BY(mutex_);
};

}  // namespace tessera
