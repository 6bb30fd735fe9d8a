#include "client-stub/streams/host_functions.h"

#include <utility>

namespace tessera {

uint64_t HostFunctionTable::Add(const HostFunction& function) {
  MutexLock lock(mutex_);
  const uint64_t number = next_++;
  functions_.emplace(number, function);
  return number;
}

bool HostFunctionTable::Take(uint64_t number, HostFunction* function) {
  MutexLock lock(mutex_);
  const auto entry = functions_.find(number);
  if (entry == functions_.end()) return false;
  *function = entry->second;
  if (!function->repeats) functions_.erase(entry);
  return true;
}

bool HostFunctionTable::Find(uint64_t number, HostFunction* function) const {
  MutexLock lock(mutex_);
  const auto entry = functions_.find(number);
  if (entry == functions_.end()) return false;
  *function = entry->second;
  return true;
}

void HostFunctionTable::Drop(uint64_t number) {
  HostFunction dropped;  // outside of the lock: what a visit owns goes with it
  MutexLock lock(mutex_);
  const auto entry = functions_.find(number);
  if (entry == functions_.end()) return;
  dropped = std::move(entry->second);
  functions_.erase(entry);
}

}  // namespace tessera
