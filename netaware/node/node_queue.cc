#include "netaware/node/node_queue.h"

#include <errno.h>
#include <sys/eventfd.h>

#include <utility>

namespace tessera {

Result<std::unique_ptr<NodeQueue>> NodeQueue::Make() {
  UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) return Status::FromErrno("cannot create a descriptor for events", errno);
  return std::unique_ptr<NodeQueue>(new NodeQueue(std::move(event)));
}

void NodeQueue::Push(std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    work_.push_back(std::move(work));
  }
  eventfd_write(event_.get(), 1);
}

void NodeQueue::Run() {
  eventfd_t count = 0;
  eventfd_read(event_.get(), &count);
  std::vector<std::function<void()>> work;
  {
    MutexLock lock(mutex_);
    work.swap(work_);
  }
  for (const std::function<void()>& each : work) each();
}

}  // namespace tessera
