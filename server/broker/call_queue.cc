#include "server/broker/call_queue.h"

#include <errno.h>
#include <sys/eventfd.h>

namespace tessera {

Result<std::unique_ptr<CallQueue>> CallQueue::Make() {
  UniqueFd calls(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE));
  UniqueFd answers(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!calls.valid() || !answers.valid()) return Status::FromErrno("cannot create a descriptor for events", errno);
  return std::unique_ptr<CallQueue>(new CallQueue(std::move(calls), std::move(answers)));
}

bool CallQueue::Push(uint64_t number, VgpuCall call) {
  {
    MutexLock lock(mutex_);
    if (calls_.size() == kCallsMax) return false;
    calls_.emplace_back(number, std::move(call));
  }
  eventfd_write(call_event_.get(), 1);
  return true;
}

std::optional<std::pair<uint64_t, VgpuCall>> CallQueue::TakeOne() {
  eventfd_t one = 0;
  if (eventfd_read(call_event_.get(), &one) != 0) return std::nullopt;
  MutexLock lock(mutex_);
  if (calls_.empty()) return std::nullopt;  // the event was of an answer about keys
  std::pair<uint64_t, VgpuCall> call = std::move(calls_.front());
  calls_.pop_front();
  return call;
}

void CallQueue::Answer(uint64_t number, VgpuAnswer answer) {
  {
    MutexLock lock(mutex_);
    answers_.emplace_back(number, std::move(answer));
  }
  eventfd_write(answer_event_.get(), 1);
}

std::vector<std::pair<uint64_t, VgpuAnswer>> CallQueue::TakeAnswers() {
  eventfd_t count = 0;
  eventfd_read(answer_event_.get(), &count);
  MutexLock lock(mutex_);
  return std::exchange(answers_, {});
}

VgpuList CallQueue::published() {
  MutexLock lock(mutex_);
  return published_;
}

void CallQueue::Publish(VgpuList list) {
  {
    MutexLock lock(mutex_);
    published_.swap(list);
  }
  eventfd_write(answer_event_.get(), 1);
}

std::optional<ControlKeys> CallQueue::TakeKeys() {
  MutexLock lock(mutex_);
  return std::exchange(keys_, std::nullopt);
}

void CallQueue::AnswerKeys(ControlKeysAnswer answer) {
  {
    MutexLock lock(mutex_);
    keys_answer_ = std::move(answer);
  }
  eventfd_write(call_event_.get(), 1);
}

void CallQueue::GiveKeys(ControlKeys keys) {
  {
    MutexLock lock(mutex_);
    keys_ = std::move(keys);
  }
  eventfd_write(answer_event_.get(), 1);
}

std::optional<ControlKeysAnswer> CallQueue::TakeKeysAnswer() {
  MutexLock lock(mutex_);
  return std::exchange(keys_answer_, std::nullopt);
}

}  // namespace tessera
