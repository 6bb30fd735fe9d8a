// The work of a session's GPUs, as a part of a trace (trace.h): a process of its own, with a lane for each stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "protocol/wire/trace_event.h"

namespace tessera {

class TracedWork {
 public:
  // `names`: mangled, by number. Both outlive it. Work whose name is not among them has none.
  TracedWork(std::span<const TraceWork> work, std::span<const std::string> names);

  // The kernel that a record launched, as trace_lines.h writes it; empty: it launched none.
  const std::string& KernelOf(uint64_t sequence) const;
  // Appends the lanes, each line behind a comma; nothing if no work was measured. `name`: of the process. `ahead_ns`: how far the
  // worker's clock is ahead of the program's. Work of one stream is moved and cut where the clocks make it overlap.
  void AddLanes(size_t process, const std::string& name, uint64_t ahead_ns, std::string* text) const;
  // Launches whose times are unknown.
  uint64_t unmeasured() const;

 private:
  const std::string& NameOf(const TraceWork& work) const;

  const std::span<const TraceWork> work_;
  const std::string none_;
  std::vector<std::string> kernels_;
  std::unordered_map<uint64_t, const TraceWork*> by_sequence_;
};

}  // namespace tessera
