// Threads that seal and open the records of large frames together with the thread that sends or receives them. The cipher takes
// longer for a byte than the network does: alone, a core that does both leaves the network waiting.
//
//   crew.ForEach(records, [&](size_t lane, size_t i) { keys.SealAt(lane, first + i, ...); });
#pragma once

#include <cstddef>

#include "protocol/channel/work_crew.h"

namespace tessera {

class TlsCrew : public WorkCrew {
 public:
  static constexpr size_t kHelpersMax = 3;
  // A machine with fewer cores has better things to do with them.
  static constexpr size_t kCoresMin = 8;

  // `helpers` threads, at most kHelpersMax.
  explicit TlsCrew(size_t helpers);

  // That of the process, for all of its links; it lives as long. Without helpers below kCoresMin.
  static TlsCrew& OfProcess();
};

}  // namespace tessera
