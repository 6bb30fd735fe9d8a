// The links of a session (cuLinkCreate): the options of each, by the handle of its state, and the thread that makes their calls.
//
// The driver writes logs, their sizes and times through what it was given at creation, until the link is destroyed (cuda.h,
// cuLinkCreate). So that stays in its place until then. And all calls of a link come from one thread: driver 580 ends the process
// in cuLinkComplete if they come from several (measured: H100, driver 580.159.04, tests/gpu/link_memory.cc). Programs that make
// them from several threads end so natively, and do not here.
#pragma once

#include <cuda.h>

#include <future>
#include <memory>
#include <unordered_map>
#include <utility>

#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"
#include "server/worker/code/jit_options.h"
#include "server/worker/helper_pool.h"
#include "server/worker/worker.h"

namespace tessera {

// Any thread.
class JitLinks {
 public:
  // Returns the result of `make`, calls of the driver, which the thread of links makes in the current context of the caller.
  // Waits for it, so it is for helper threads.
  template <typename Make>
  CUresult OnThread(Worker& worker, const Make& make) {
    std::promise<CUresult> made;
    const CUcontext context = worker.CurrentContext();
    const bool taken = thread_.Run([&] {
      const CUresult result = worker.SetContext(context);
      made.set_value(result == CUDA_SUCCESS ? make() : result);
    });
    return taken ? made.get_future().get() : CUDA_ERROR_OUT_OF_MEMORY;
  }

  void Keep(HandleId state, std::unique_ptr<JitOptions> options) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    options_[state.value()] = std::move(options);
  }
  // Null: there are none.
  JitOptions* Find(HandleId state) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = options_.find(state.value());
    return found == options_.end() ? nullptr : found->second.get();
  }
  // The link was destroyed.
  void Drop(HandleId state) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    options_.erase(state.value());
  }

 private:
  Mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<JitOptions>> options_ GUARDED_BY(mutex_);
  HelperPool thread_{1};  // last: its thread uses the others
};

}  // namespace tessera
