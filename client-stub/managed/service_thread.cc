#include "client-stub/managed/service_thread.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <system_error>
#include <thread>

#include "client-stub/process/guest_thread.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

void FutexWait(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void FutexWake(uint32_t* word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

thread_local bool is_service_thread = false;

}  // namespace

bool ServiceThread::alive() const { return process_.load(std::memory_order_acquire) == getpid(); }

bool ServiceThread::Start() {
  if (process_.load(std::memory_order_acquire) != 0) return alive();
  try {
    StartGuestThread("tessera-managed", [this] { Loop(); }).detach();
  } catch (const std::system_error& error) {
    LogWarning("no thread for managed memory: {}", error.what());
    return false;
  }
  process_.store(getpid(), std::memory_order_release);
  return true;
}

bool ServiceThreads::Start() {
  MutexLock lock(mutex_);
  return common_.Start() && of_host_functions_.Start();
}

void ServiceThread::PostAndWait(ServiceRequest& request) {
  ServiceRequest* newest = posted_.load(std::memory_order_relaxed);
  do {
    request.next = newest;
  } while (!posted_.compare_exchange_weak(newest, &request, std::memory_order_release, std::memory_order_relaxed));
  wake_.fetch_add(1, std::memory_order_release);
  FutexWake(reinterpret_cast<uint32_t*>(&wake_));
  while (request.done.load(std::memory_order_acquire) == 0) FutexWait(request.done, 0);
}

void ServiceThread::Run(const std::function<void()>& function) {
  if (is_service_thread) return function();
  struct Job : ServiceRequest {
    const std::function<void()>* function;
  } job;
  job.function = &function;
  job.run = [](ServiceRequest& request) { (*static_cast<Job&>(request).function)(); };
  PostAndWait(job);
}

void ServiceThread::Loop() {
  is_service_thread = true;
  for (;;) {
    const uint32_t seen = wake_.load(std::memory_order_acquire);
    ServiceRequest* newest = posted_.exchange(nullptr, std::memory_order_acquire);
    if (newest == nullptr) {
      FutexWait(wake_, seen);
      continue;
    }
    ServiceRequest* oldest = nullptr;
    while (newest != nullptr) {
      ServiceRequest* const next = newest->next;
      newest->next = oldest;
      oldest = newest;
      newest = next;
    }
    while (oldest != nullptr) {
      ServiceRequest* const request = oldest;
      oldest = oldest->next;
      request->run(*request);
      // The request is gone as soon as its thread sees this; waking what lies there then is harmless.
      request->done.store(1, std::memory_order_release);
      FutexWake(reinterpret_cast<uint32_t*>(&request->done));
    }
  }
}

}  // namespace tessera
