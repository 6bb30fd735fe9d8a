// The process' use of CUDA, and its sessions with servers.
//
// Any thread may call everything here. In a forked child Initialize() returns CUDA_ERROR_NOT_INITIALIZED for ever and
// session() is null: CUDA does not survive fork (CUDA C Programming Guide), and the parent's rings are not touched.
#pragma once

#include <cuda.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client-stub/process/config.h"
#include "client-stub/process/process_part.h"
#include "client-stub/process/statistics.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "client-stub/session/trace.h"
#include "protocol/base/mutex.h"
#include "protocol/memory/window_table.h"

namespace tessera {

class Client {
 public:
  // The client of this process.
  static Client& Get() { return PartOfProcess<Client>::Get(); }
  // The same, or null if it was not made yet. For handlers, which must not make it.
  static Client* IfMade() { return PartOfProcess<Client>::IfMade(); }

  // cuInit: connects on first use; after a failure a later call tries again. CUDA_ERROR_NO_DEVICE: no server can be reached;
  // stderr has each reason once (cu_result.h). CUDA_ERROR_INVALID_VALUE: flags other than 0.
  // CUDA_ERROR_DEINITIALIZED: after EndCalls().
  CUresult Initialize(unsigned flags);
  // True after a successful Initialize(), in the process that made it, until EndCalls().
  bool initialized() const { return initialized_.load(std::memory_order_acquire); }
  // What calls return while initialized() is false.
  CUresult NotInitialized() const;
  // The process ends: calls that begin from now on return CUDA_ERROR_DEINITIALIZED, as with a driver whose own exit handler has
  // run. Those under way go on, since a later exit handler may wait for their threads.
  void EndCalls();
  bool calls_ended() const { return calls_ended_.load(std::memory_order_acquire); }
  // The first session, which serves calls that belong to no device. It keeps its address when the server is gone. Null before it
  // was made, and in a forked child.
  Session* session() const { return session_.load(std::memory_order_acquire); }
  // All of them, one for each server that has devices for this process, in the order of their indices (HandleId::session()).
  std::span<Session* const> sessions() const {
    return {sessions_, static_cast<size_t>(session_count_.load(std::memory_order_acquire))};
  }
  // The session of a handle, by its bits, and of a device's number; null: none.
  Session* SessionOf(HandleId id) const {
    const auto all = sessions();
    return id.IsWellFormed() && id.session() < all.size() ? all[id.session()] : nullptr;
  }
  Session* SessionOfDevice(CUdevice device) const;
  // A context of any session, in whatever state (ContextTable::Find).
  Context* FindContext(CUcontext context) const;
  // Devices of all sessions: their ordinals are 0 to one below that.
  int device_count() const;
  bool forked() const { return forked_.load(std::memory_order_relaxed); }

  // cuDriverGetVersion, legal before cuInit. The answer never changes within a process, so the first call connects. CUDA_VERSION
  // if there is no server.
  int DriverVersion();

  // Null unless TESSERA_STATS asks for them.
  Statistics* statistics() { return statistics_; }
  Trace* trace() { return trace_.get(); }
  // The usual case: no statistics, no trace, and calls do not wait for their results (CUDA_LAUNCH_BLOCKING).
  bool plain() const { return plain_; }

  // For tests: uses sessions over the test's channels instead of connections. They outlive their use. Null or none: no session.
  void UseSessionForTest(Session* session);
  void UseSessionsForTest(std::span<Session* const> sessions);

  // `statistics` may be null. `attach` gives every new session the parts of the rooms above, before anybody can find the session.
  // `at_exit` becomes an exit handler of the process with the first successful Initialize().
  Client(const Config& config, Statistics* statistics, void (*attach)(Session&), void (*at_exit)());

 private:
  CUresult Connect() REQUIRES(connect_mutex_);
  // Makes the sessions that TESSERA_SERVER asks for.
  Status ConnectAll(std::vector<std::unique_ptr<Session>>* sessions) REQUIRES(connect_mutex_);
  void Publish(std::span<Session* const> sessions);
  static void AfterForkInChild();

  void (*const attach_)(Session&);
  void (*const at_exit_)();
  std::atomic<Session*> session_{nullptr};
  Session* sessions_[kSessionsPerWindow] = {};  // written before session_count_
  std::atomic<int> session_count_{0};
  std::atomic<bool> initialized_{false};
  std::atomic<bool> forked_{false};
  std::atomic<bool> calls_ended_{false};
  std::atomic<int> driver_version_{0};
  Statistics* const statistics_;
  std::unique_ptr<Trace> trace_;
  bool plain_ = true;  // set by the constructor
  Mutex connect_mutex_;
  std::string last_complaint_ GUARDED_BY(connect_mutex_);
};

}  // namespace tessera
