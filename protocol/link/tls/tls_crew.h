// Threads that help to seal and open the records of large frames, beside the thread that sends or receives them. The cipher takes
// longer for a byte than the network, so one core alone would leave the network waiting.
//
//   crew.ForEach(records, [&](size_t lane, size_t i) { keys.SealAt(lane, first + i, ...); });
#pragma once

#include <cstddef>

#include "protocol/channel/work_crew.h"

namespace tessera {

class TlsCrew : public WorkCrew {
 public:
  static constexpr size_t kHelpersMax = 3;
  // A machine with fewer cores needs them for other work.
  static constexpr size_t kCoresMin = 8;

  // `helpers` threads, at most kHelpersMax.
  explicit TlsCrew(size_t helpers);

  // The crew of the process, for all its links. It is never destroyed. It has no helpers below kCoresMin.
  static TlsCrew& OfProcess();
};

}  // namespace tessera
