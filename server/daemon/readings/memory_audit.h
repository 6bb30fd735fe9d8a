// Finds workers that hold more of a GPU's memory than their ledger says: compares what NVML says of each worker process with the
// worker's own report.
//
//   audit.Hear(reported, ask);                     // from the broker, once a second while a GPU is not free
//   for (const MemoryAudit::Finding& finding : audit.Compare(figures)) ...      // from the monitor, once for each of these
//
// For each session and GPU it compares NVML's figure of the process' memory with a sum: what the worker's report page says, what
// its driver has beside that, and a tolerance. A worker that is above the sum in kSecondsInARow messages of the broker in a row
// is found, once while the session lives.
//
// The ledger (server/worker/memory) counts what a program allocates, whatever the call: blocks, pools, memory of graphs, arrays,
// variables of modules, contexts but the first, and what limits set aside (heap of malloc(), buffer of printf(), stacks and local
// memory of large kernels). What an honest driver has beside it:
//
//   a context    the first one: what one took there when the server started. Limits begin with what a context has
//   code         of modules and libraries: at most their images, unpacked, in each context that the worker has made. The worker
//                adds them up as it loads them, whether the driver takes them late or at once
//   tables       for streams, events, instances of graphs, pages: for these is the tolerance, kMoreBytes
//   variables    of modules where the vGPU has no limit: nobody looks for them there. So the tolerance is kUnlimitedMoreBytes,
//                and nobody is ended for it (Finding::is_sure)
//
// What the worker says of code may be made up. It counts up to kBesideMax. So a worker that lies about everything may hold
// kBesideMax and kMoreBytes beyond its limit.
//
// Nobody must be accused wrongly. NVML's figures are late, so the largest report of the last kReportedMax seconds counts. Where
// it was not measured what a context takes, nobody is ended either.
//
// Pure; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "server/daemon/readings/process_figures.h"
#include "server/daemon/readings/report_tracks.h"
#include "server/gate/broker_line.h"

namespace tessera {

class MemoryAudit {
 public:
  static constexpr uint64_t kMoreBytes = uint64_t{256} << 20;
  static constexpr uint64_t kUnlimitedMoreBytes = uint64_t{1} << 30;
  static constexpr uint64_t kBesideMax = uint64_t{2} << 30;
  static constexpr uint32_t kSecondsInARow = 5;
  static constexpr size_t kReportedMax = 3;
  // How many found sessions are remembered; with more the oldest is forgotten.
  static constexpr size_t kFoundMax = 4096;

  struct Finding {
    uint64_t session;
    uint32_t device;
    uint64_t used_bytes;    // by NVML
    uint64_t held_bytes;    // by its worker
    uint64_t beside_bytes;  // for contexts and code
    uint64_t more_bytes;    // the tolerance
    bool is_sure;           // it may be ended for it
  };

  // `context_bytes`: by GPU, as ServerReport has them; 0: not known.
  explicit MemoryAudit(std::vector<uint64_t> context_bytes) : context_bytes_(std::move(context_bytes)) {}

  void Hear(const ReportedMessage& reported, const AskOfWorker& ask);
  // The findings by these figures, which were asked for after the last Hear().
  std::vector<Finding> Compare(const ProcessFigures& figures);

  // How many sessions were found on this GPU, in all.
  uint32_t found(uint32_t device) const { return device < found_.size() ? found_[device] : 0; }

 private:
  struct Track {
    std::vector<uint64_t> held;  // in the last seconds, at most kReportedMax
    uint64_t beside_bytes = 0;
    bool is_limited = false;
    uint32_t in_a_row = 0;
  };
  uint64_t ContextBytes(uint32_t device) const { return device < context_bytes_.size() ? context_bytes_[device] : 0; }

  const std::vector<uint64_t> context_bytes_;
  ReportTracks<Track> tracks_;
  std::set<ReportTracks<Track>::Part> found_parts_;
  std::array<uint32_t, kGateRowsMax> found_{};
};

}  // namespace tessera
