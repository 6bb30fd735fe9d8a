// Between the front of the control API, which has threads of its own, and the thread of the broker: calls one way, answers and
// what vGPUs there are the other way. Neither side waits for the other.
//
//   front:   if (!queue.Push(7, call)) ...              broker:  queue.TakeOne(), after call_fd() became readable
//            queue.TakeAnswers(), after answer_fd()              queue.Answer(7, answer); queue.Publish(views)
//
// Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "server/broker/vgpu_api.h"
#include "server/gate/broker_line.h"

namespace tessera {

// What the front is to show and believe at tls://: a message of the daemon's and its descriptor.
struct ControlKeys {
  ControlKeysMessage message;
  UniqueFd texts;
};

class CallQueue {
 public:
  // Calls that wait.
  static constexpr size_t kCallsMax = 256;

  static Result<std::unique_ptr<CallQueue>> Make();

  // The front. `number` comes back with the answer. False: kCallsMax wait already.
  bool Push(uint64_t number, VgpuCall call);
  int answer_fd() const { return answer_event_.get(); }  // readable while there is something to be taken
  std::vector<std::pair<uint64_t, VgpuAnswer>> TakeAnswers();
  // Whether somebody wants to see what changes, and what there was at the last change that was published; null: none was. What
  // there is now kList tells.
  void Watch(bool watched) { watched_.store(watched, std::memory_order_relaxed); }
  VgpuList published();
  // The last ones that were given and not taken.
  std::optional<ControlKeys> TakeKeys();
  void AnswerKeys(ControlKeysAnswer answer);

  // The broker.
  int call_fd() const { return call_event_.get(); }  // readable while there are calls, or an answer about keys
  // One, so that what waits for a GPU waits for no more than that.
  std::optional<std::pair<uint64_t, VgpuCall>> TakeOne();
  void Answer(uint64_t number, VgpuAnswer answer);
  bool watched() const { return watched_.load(std::memory_order_relaxed); }
  void Publish(VgpuList list);
  void GiveKeys(ControlKeys keys);
  std::optional<ControlKeysAnswer> TakeKeysAnswer();  // after call_fd() became readable, before TakeOne()

 private:
  CallQueue(UniqueFd call_event, UniqueFd answer_event)
      : call_event_(std::move(call_event)), answer_event_(std::move(answer_event)) {}

  const UniqueFd call_event_;  // counts calls and answers about keys
  const UniqueFd answer_event_;
  std::atomic<bool> watched_ = false;
  Mutex mutex_;
  std::deque<std::pair<uint64_t, VgpuCall>> calls_ GUARDED_BY(mutex_);
  std::vector<std::pair<uint64_t, VgpuAnswer>> answers_ GUARDED_BY(mutex_);
  VgpuList published_ GUARDED_BY(mutex_);
  std::optional<ControlKeys> keys_ GUARDED_BY(mutex_);
  std::optional<ControlKeysAnswer> keys_answer_ GUARDED_BY(mutex_);
};

}  // namespace tessera
