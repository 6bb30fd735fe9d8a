// The application's host functions: kept here by number, run when the server says that their stream has reached them.
//
// They run on the session's host function thread, one after the other, with ThreadState::in_host_function set; then the
// server is answered and the stream goes on. Functions of independent streams may be serialised natively as well (CUDA
// driver API, cuLaunchHostFunc).
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "client-stub/process/process_part.h"
#include "client-stub/session/basic_call.h"
#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

// Lets the stream go on: to be called once by a visit.
using GoOn = std::function<void()>;
// The library's own work at a point of a stream (stream_visit.h).
using Visit = std::function<void(const GoOn& go_on)>;

// One function and its argument. Exactly one of `function`, `callback` and `visit` is set.
struct HostFunction {
  CUhostFn function = nullptr;
  CUstreamCallback callback = nullptr;
  CUstream stream = nullptr;  // as the application passed it; what a callback is told
  void* user_data = nullptr;
  std::shared_ptr<const Visit> visit{};
  // Of a node of a graph: may be asked for any number of times. Those of the application are kept until the process ends,
  // visits until the server says that their graphs are gone.
  bool repeats = false;
  // The destructor of this user object: the handle ends when the server calls for the function.
  HandleId user_object{};
};

// Any thread.
class HostFunctionTable {
 public:
  uint64_t Add(const HostFunction& function) EXCLUDES(mutex_);
  // The function; one that does not repeat is removed. False for an unknown number.
  bool Take(uint64_t number, HostFunction* function) EXCLUDES(mutex_);
  // A look at one that stays.
  bool Find(uint64_t number, HostFunction* function) const EXCLUDES(mutex_);
  // The call that named it was not sent.
  void Drop(uint64_t number) EXCLUDES(mutex_);
  // Whether the process ever added one: only then can work on a stream write host memory behind the program's back.
  bool used() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return next_ != 1;
  }

 private:
  mutable Mutex mutex_;
  uint64_t next_ GUARDED_BY(mutex_) = 1;
  std::unordered_map<uint64_t, HostFunction> functions_ GUARDED_BY(mutex_);
};

inline HostFunctionTable& HostFunctionsOfProcess() { return PartOfProcess<HostFunctionTable>::Get(); }

}  // namespace tessera
