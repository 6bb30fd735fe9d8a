// The threads that move pages of managed memory between this process and the device, and whoever waits for them.
//
// A thread that touches a page it may not touch is inside a signal handler and may hold any lock of the application's; so
// it does nothing but post a request and sleep. Requests of one thread run one after the other, and may wait for work of the
// device. Those of host functions have a thread of their own: what others wait for may be the host function itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

namespace tessera {

// Lives on the waiting thread's stack.
struct ServiceRequest {
  void (*run)(ServiceRequest& request) = nullptr;
  ServiceRequest* next = nullptr;
  std::atomic<uint32_t> done{0};
};

class ServiceThread {
 public:
  // Both of this process; never destroyed.
  static ServiceThread& Process();
  static ServiceThread& OfHostFunctions();

  // Starts both threads if they do not run. False when the system gives none. Not from a signal handler.
  static bool Start();
  // Runs the request on the thread and waits for it. Async-signal-safe. The thread was started.
  void PostAndWait(ServiceRequest& request);
  // The same for a function; on a service thread it is called directly. Not from a signal handler.
  void Run(const std::function<void()>& function);
  // The thread runs in this process: not in a child after fork. Async-signal-safe.
  bool alive() const;

 private:
  void Loop();

  std::atomic<ServiceRequest*> posted_{nullptr};  // newest first
  std::atomic<uint32_t> wake_{0};                 // futex: counts posts
  std::atomic<int> process_{0};                   // of the thread; 0 before Start()
};

}  // namespace tessera
