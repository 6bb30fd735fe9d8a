// The process' use of CUDA: the only global of the stub. Constructed on first use and never destroyed, since exit
// handlers and destructors of other libraries call in after main has returned.
//
// Any thread may call everything here. In a forked child Initialize() returns CUDA_ERROR_NOT_INITIALIZED for ever and
// session() is null: CUDA does not survive fork (CUDA C Programming Guide), and the parent's rings are not touched.
#pragma once

#include <cuda.h>

#include <atomic>
#include <memory>
#include <string>

#include "client-stub/config.h"
#include "client-stub/session.h"
#include "client-stub/statistics.h"
#include "client-stub/thread_state.h"
#include "protocol/base/mutex.h"

namespace tessera {

class Client {
 public:
  static Client& Get();

  // cuInit: connects on first use. CUDA_ERROR_NO_DEVICE when no server can be reached (why stands on stderr, once per
  // reason), see cu_result.h. A later call tries again. CUDA_ERROR_INVALID_VALUE for flags other than 0.
  CUresult Initialize(unsigned flags);
  // True after a successful Initialize(), in the process that made it.
  bool initialized() const { return initialized_.load(std::memory_order_acquire); }
  // The session; null before one was made, and in a forked child. It stays at its address when the server is gone.
  Session* session() const { return session_.load(std::memory_order_acquire); }
  bool forked() const { return forked_.load(std::memory_order_relaxed); }

  // cuDriverGetVersion, legal before cuInit: connects (the first answer must already be the right one), and says
  // CUDA_VERSION when there is no server. The answer never changes within a process.
  int DriverVersion();

  // Null unless TESSERA_STATS asks for them.
  Statistics* statistics() { return statistics_.get(); }

  // Tests put a session over a channel of their own in place of a connection; `session` outlives its use.
  void UseSessionForTest(Session* session);

 private:
  Client();
  CUresult Connect() REQUIRES(connect_mutex_);
  static void AfterForkInChild();

  std::atomic<Session*> session_{nullptr};
  std::atomic<bool> initialized_{false};
  std::atomic<bool> forked_{false};
  std::atomic<int> driver_version_{0};
  std::unique_ptr<Statistics> statistics_;
  Mutex connect_mutex_;
  std::string last_complaint_ GUARDED_BY(connect_mutex_);
};

}  // namespace tessera
