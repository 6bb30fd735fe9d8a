// Finds workers that hold more of a GPU's memory than their ledger says: compares what NVML says of each worker process with the
// worker's own report.
//
//   audit.Hear(reported);                          // from the broker, once a second while a GPU is not free
//   for (const MemoryAudit::Finding& finding : audit.Compare(figures)) ...      // from the monitor, once for each of these
//
// For each session and GPU it compares NVML's figure of the process' memory with a sum: what the worker's report page says, what
// a context took there when the server started, and kMoreBytes. A worker that is above the sum in kSecondsInARow messages of the
// broker in a row is found, once while the session lives.
//
// Nobody must be accused wrongly. kMoreBytes is for what no ledger counts: further contexts of the program, code that the driver
// loads late, and a context where none was measured. NVML's figures are late, so the largest report of the last kReportedMax
// seconds counts. A finding is for people to look at: it ends no session.
//
// Pure; one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "server/daemon/readings/process_figures.h"
#include "server/gate/broker_line.h"

namespace tessera {

class MemoryAudit {
 public:
  static constexpr uint64_t kMoreBytes = uint64_t{1} << 30;
  static constexpr uint32_t kSecondsInARow = 5;
  static constexpr size_t kReportedMax = 3;
  // How many found sessions are remembered; with more the oldest is forgotten.
  static constexpr size_t kFoundMax = 4096;

  struct Finding {
    uint64_t session;
    uint32_t device;
    uint64_t used_bytes;     // by NVML
    uint64_t held_bytes;     // by its worker
    uint64_t context_bytes;  // what a context takes there
  };

  // `context_bytes`: by GPU, as ServerReport has them.
  explicit MemoryAudit(std::vector<uint64_t> context_bytes) : context_bytes_(std::move(context_bytes)) {}

  void Hear(const ReportedMessage& reported);
  // The findings by these figures, which were asked for after the last Hear().
  std::vector<Finding> Compare(const ProcessFigures& figures);

  // How many sessions were found on this GPU, in all.
  uint32_t found(uint32_t device) const { return device < found_.size() ? found_[device] : 0; }

 private:
  using Part = std::pair<uint64_t, uint32_t>;  // session, GPU
  struct Track {
    std::vector<uint64_t> held;  // in the last seconds, at most kReportedMax
    uint32_t in_a_row = 0;
    bool heard = false;  // this time
  };

  const std::vector<uint64_t> context_bytes_;
  std::map<Part, Track> tracks_;
  std::set<Part> found_parts_;
  std::array<uint32_t, kGateRowsMax> found_{};
};

}  // namespace tessera
