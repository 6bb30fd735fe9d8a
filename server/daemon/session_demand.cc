#include "server/daemon/session_demand.h"

#include <algorithm>

#include "protocol/channel/waiting.h"

namespace tessera {

void SessionDemand::Note(uint64_t began_ns, uint64_t ended_ns) {
  if (ended_ns - began_ns > kShortNs) return;
  began_.insert(std::upper_bound(began_.begin(), began_.end(), began_ns), began_ns);
  if (began_.size() > kCountedMax) began_.pop_front();
}

size_t SessionDemand::Peak(uint64_t now_ns, uint64_t span_ns) {
  while (!began_.empty() && began_.front() + kMemoryNs <= now_ns) began_.pop_front();
  size_t most = 0;
  for (size_t first = 0, last = 0; last < began_.size(); ++last) {
    while (began_[last] - began_[first] > span_ns) ++first;
    most = std::max(most, last - first + 1);
  }
  return most;
}

uint64_t SessionDemand::next_ns() const { return began_.empty() ? kNoDeadline : began_.front() + kMemoryNs; }

}  // namespace tessera
