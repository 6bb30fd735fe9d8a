#include "client-stub/managed/pending_work.h"

namespace tessera {

WorkedStream NameOf(HandleId context, HandleId stream) {
  const auto last_default = reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD);
  return {context, stream.value() <= last_default ? HandleId(reinterpret_cast<uint64_t>(CU_STREAM_LEGACY)) : stream};
}

void PendingWork::Note(const WorkedStream& stream) {
  MutexLock lock(mutex_);
  streams_.insert(stream);
}

std::vector<WorkedStream> PendingWork::Take(const std::function<bool(const WorkedStream&)>& wanted) {
  std::vector<WorkedStream> taken;
  MutexLock lock(mutex_);
  for (auto it = streams_.begin(); it != streams_.end();) {
    if (!wanted(*it)) {
      ++it;
      continue;
    }
    taken.push_back(*it);
    it = streams_.erase(it);
  }
  return taken;
}

void PendingWork::ForEach(const std::function<void(const WorkedStream&)>& visit) {
  MutexLock lock(mutex_);
  for (const WorkedStream& stream : streams_) visit(stream);
}

void PendingWork::ForgetContext(HandleId context) {
  MutexLock lock(mutex_);
  std::erase_if(streams_, [&](const WorkedStream& one) { return one.context == context; });
}

}  // namespace tessera
