#include "client-stub/process/short_mutex.h"

#include "protocol/base/clock.h"
#include "protocol/channel/waiting.h"

namespace tessera {

void ShortMutex::WaitAndTake() {
  constexpr int kLooks = 100;  // some microseconds: longer than the mutex is kept by a thread that runs
  do {
    for (int i = 0; i < kLooks && taken_.load(std::memory_order_relaxed) != 0; ++i) CpuRelax();
    if (taken_.load(std::memory_order_relaxed) != 0) FutexWait(&taken_, 1, kSleepNs);
  } while (taken_.exchange(1, std::memory_order_acquire) != 0);
}

}  // namespace tessera
