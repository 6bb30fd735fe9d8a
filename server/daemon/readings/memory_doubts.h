// Finds workers that say they hold more of a GPU's memory than their processes use: compares what NVML says of each worker
// process with the worker's own report, as MemoryAudit does for those that say less.
//
//   doubts.Hear(reported);                          // from the broker, once a second
//   broker.Seen({doubts.Compare(figures)});         // from the monitor, once for each of these
//
// What sessions without a limit hold is taken from what vGPUs with one may have. Without this a worker could say that it holds
// the whole GPU, and no vGPU with a limit could be made or grown.
//
// A report that is more than kMoreBytes above NVML's figure is a wrong one. A part with kWrongMax wrong reports is doubted:
// NVML's figure is what it holds. It is believed again after kRightMax right ones in a row. So whoever allocates or frees at the
// moment of a figure is not doubted, and whoever says now this, now that, is.
//
// A process of which NVML tells nothing uses nothing, if NVML has ever told of a process of this server. Until then, and where
// figures say no bytes, nothing is known, and nobody is doubted.
//
// Pure; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "server/daemon/readings/process_figures.h"
#include "server/daemon/readings/report_tracks.h"
#include "server/gate/broker_line.h"

namespace tessera {

class MemoryDoubts {
 public:
  // A ledger also counts memory that other processes of the session's user hold (imports), and rounds up.
  static constexpr uint64_t kMoreBytes = uint64_t{64} << 20;
  static constexpr uint32_t kWrongMax = 2;
  static constexpr uint32_t kRightMax = 60;

  void Hear(const ReportedMessage& reported);
  // Those that are doubted, by these figures, which were asked for after the last Hear().
  std::vector<SeenMessage::Row> Compare(const ProcessFigures& figures);

 private:
  struct Track {
    uint64_t held_bytes = 0;
    uint32_t wrong = 0;  // reports; no more than kWrongMax
    uint32_t right = 0;  // since the last wrong one
  };

  ReportTracks<Track> tracks_;
  bool knows_us_ = false;  // NVML has told of a process of this server
};

}  // namespace tessera
