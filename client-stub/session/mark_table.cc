#include "client-stub/session/mark_table.h"

#include "client-stub/session/session.h"

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

CUresult MarkTable::Wait(Session& session, uint64_t mark) {
  CUresult result = CUDA_SUCCESS;
  const CUresult waited = session.WaitUntil([&] { return Passed(mark, &result); });
  Close(mark);
  return waited != CUDA_SUCCESS ? waited : result;
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
