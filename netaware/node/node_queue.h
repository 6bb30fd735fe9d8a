// A queue of work from other threads for the node's one thread, which does it in the order of arrival.
//
//   queue.Push([&] { core.TakeList(list); });        // any thread
//   poll(queue.fd()), queue.Run();                   // the node's thread
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

class NodeQueue {
 public:
  static Result<std::unique_ptr<NodeQueue>> Make();

  void Push(std::function<void()> work) EXCLUDES(mutex_);
  int fd() const { return event_.get(); }  // readable while there is work
  // Does all queued work.
  void Run() EXCLUDES(mutex_);

 private:
  explicit NodeQueue(UniqueFd event) : event_(std::move(event)) {}

  const UniqueFd event_;
  Mutex mutex_;
  std::vector<std::function<void()>> work_ GUARDED_BY(mutex_);
};

}  // namespace tessera
