// The threads that move pages of managed memory between this process and the device, and how others wait for them.
//
// A thread that touches an inaccessible page is in a signal handler, and may hold any lock of the application. So it only posts a
// request and sleeps. A service thread runs its requests one after the other, and may wait for work of the device. Requests of
// host functions have a thread of their own, since others may wait for that very host function.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "client-stub/process/process_part.h"
#include "protocol/base/mutex.h"

namespace tessera {

// A request. It lives on the waiting thread's stack.
struct ServiceRequest {
  void (*run)(ServiceRequest& request) = nullptr;
  ServiceRequest* next = nullptr;
  std::atomic<uint32_t> done{0};
};

class ServiceThread {
 public:
  // Starts the thread if it does not run. False: the system gives none, or the parent of this process has started it. One thread
  // at a time; not from a signal handler.
  bool Start();
  // Runs the request on the thread, which was started, and waits for it. Async-signal-safe.
  void PostAndWait(ServiceRequest& request);
  // The same for a function. On a service thread it is called directly. Not from a signal handler.
  void Run(const std::function<void()>& function);
  // Whether the thread runs in this process; false in a child after fork. Async-signal-safe.
  bool alive() const;

 private:
  void Loop();

  std::atomic<ServiceRequest*> posted_{nullptr};  // newest first
  std::atomic<uint32_t> wake_{0};                 // futex: counts posts
  std::atomic<int> process_{0};                   // of the thread; 0 before Start()
};

// The two service threads of this process.
class ServiceThreads {
 public:
  static ServiceThreads& Process() { return PartOfProcess<ServiceThreads>::Get(); }

  ServiceThread& common() { return common_; }
  ServiceThread& of_host_functions() { return of_host_functions_; }
  // Starts both if they do not run. False as above. Not from a signal handler.
  bool Start() EXCLUDES(mutex_);

 private:
  ServiceThread common_;
  ServiceThread of_host_functions_;
  Mutex mutex_;
};

}  // namespace tessera
