#include "client-stub/session/poll_table.h"

namespace tessera {

PollTable::State PollTable::Look(Key key, uint64_t news, uint64_t now_ns, uint64_t sequence) {
  if (empty()) return State::kUnknown;
  MutexLock lock(mutex_);
  const auto found = polls_.find(key);
  if (found == polls_.end()) return State::kUnknown;
  Poll& poll = found->second;
  CUresult result = CUDA_SUCCESS;
  if (poll.mark != 0 && marks_.Passed(poll.mark, &result)) {
    marks_.Close(poll.mark);
    poll.mark = 0;
    poll.done = result == CUDA_SUCCESS;
    if (!poll.done) {  // the driver tells the failure to those who ask it
      Erase(found);
      return State::kUnknown;
    }
  }
  if (poll.done) {
    if (sequence == 0 || sequence == poll.sequence) return State::kDone;
    Erase(found);
    return State::kUnknown;
  }
  const bool fresh = poll.confirmed_ns != 0 && poll.news == news && now_ns - poll.confirmed_ns < kConfirmNs;
  return fresh ? State::kPending : State::kUnknown;
}

uint64_t PollTable::Begin(Key key) {
  MutexLock lock(mutex_);
  const auto [found, inserted] = polls_.try_emplace(key);
  size_.store(polls_.size(), std::memory_order_relaxed);
  if (inserted) found->second.mark = marks_.Open();
  return inserted ? found->second.mark : 0;
}

void PollTable::End(Key key, uint64_t mark, CUresult result, uint64_t news, uint64_t now_ns, uint64_t sequence) {
  MutexLock lock(mutex_);
  const auto found = polls_.find(key);
  if (found == polls_.end()) return;  // has new work meanwhile
  Poll& poll = found->second;
  if (mark != 0 && poll.mark != mark) return;
  if (result != CUDA_ERROR_NOT_READY) return Erase(found);
  if (mark != 0) poll.sequence = sequence;
  poll.news = news + 1;  // the answer itself was read
  poll.confirmed_ns = now_ns;
}

void PollTable::Forget(Key key) {
  if (empty()) return;
  MutexLock lock(mutex_);
  if (const auto found = polls_.find(key); found != polls_.end()) Erase(found);
}

void PollTable::ForgetAll() {
  if (empty()) return;
  MutexLock lock(mutex_);
  while (!polls_.empty()) Erase(polls_.begin());
}

void PollTable::Erase(std::unordered_map<Key, Poll>::iterator poll) {
  if (poll->second.mark != 0) marks_.Close(poll->second.mark);
  polls_.erase(poll);
  size_.store(polls_.size(), std::memory_order_relaxed);
}

}  // namespace tessera
