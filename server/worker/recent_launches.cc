#include "server/worker/recent_launches.h"

#include <algorithm>

#include "generated/server/dispatch.h"
#include "protocol/base/log.h"
#include "protocol/wire/record.h"

namespace tessera {

const char* RecentLaunches::Keep(const char* name) {
  MutexLock lock(mutex_);
  return names_.emplace(name).first->c_str();
}

void RecentLaunches::LogFailure(const RecordHeader& record, CUresult error) {
  if (logged_.exchange(true)) return;
  LogInfo("a context failed with error {}, told by {}; kernels launched last: {}", static_cast<int>(error), CallName(record.call),
          Describe());
}

// The last one first.
std::string RecentLaunches::Describe() const {
  const uint64_t noted = noted_.load(std::memory_order_relaxed);
  std::string text;
  for (uint64_t back = 1; back <= std::min<uint64_t>(noted, kKept); ++back) {
    const Entry& entry = entries_[(noted - back) % kKept];
    const auto number = [&](size_t index) { return entry.numbers[index].load(std::memory_order_relaxed); };
    text += fmt::format("{}{} <<<({}, {}, {}), ({}, {}, {}), {}>>>", text.empty() ? "" : ", ",
                        entry.name.load(std::memory_order_acquire), number(0), number(1), number(2), number(3), number(4),
                        number(5), number(6));
  }
  return text.empty() ? "none" : text;
}

}  // namespace tessera
