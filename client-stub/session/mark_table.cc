#include "client-stub/session/mark_table.h"

namespace tessera {

uint64_t MarkTable::Open() {
  MutexLock lock(mutex_);
  const uint64_t mark = next_++;
  open_.emplace(mark, Mark{});
  return mark;
}

bool MarkTable::Passed(uint64_t mark, CUresult* result) const {
  MutexLock lock(mutex_);
  const auto found = open_.find(mark);
  if (found == open_.end() || !found->second.passed) return false;
  if (result != nullptr) *result = found->second.result;
  return true;
}

void MarkTable::Close(uint64_t mark) {
  MutexLock lock(mutex_);
  open_.erase(mark);
}

void MarkTable::Pass(uint64_t mark, CUresult result) {
  MutexLock lock(mutex_);
  const auto found = open_.find(mark);
  if (found == open_.end()) return;
  found->second.passed = true;
  found->second.result = result;
}

}  // namespace tessera
