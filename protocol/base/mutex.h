// A mutex and its lock with clang's thread-safety annotations (checked by the preset `lint`; nothing elsewhere).
// Source of the annotations: clang documentation, "Thread Safety Analysis".
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TESSERA_ANNOTATE(x) __attribute__((x))
#else
#define TESSERA_ANNOTATE(x)
#endif
// Abseil, which gRPC includes, has some of them too, with the same meaning.
#undef GUARDED_BY
#define CAPABILITY(x) TESSERA_ANNOTATE(capability(x))
#define SCOPED_CAPABILITY TESSERA_ANNOTATE(scoped_lockable)
#define GUARDED_BY(x) TESSERA_ANNOTATE(guarded_by(x))
#define REQUIRES(...) TESSERA_ANNOTATE(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) TESSERA_ANNOTATE(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) TESSERA_ANNOTATE(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) TESSERA_ANNOTATE(release_capability(__VA_ARGS__))
#define EXCLUDES(...) TESSERA_ANNOTATE(locks_excluded(__VA_ARGS__))

namespace tessera {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }
  bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits with a Mutex held. Give wait() the Mutex, not its lock: then the analysis sees that it stays held.
using ConditionVariable = std::condition_variable_any;

}  // namespace tessera
