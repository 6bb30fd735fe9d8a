// Who holds more of a GPU's memory than its ledger says: what NVML says of each worker process, beside what that worker has said
// of itself.
//
//   audit.Hear(reported);                          // from the broker, once a second while a GPU is not free
//   for (const MemoryAudit::Finding& finding : audit.Compare(figures)) ...      // from the monitor, once for each of these
//
// Compared is, for each session and GPU, what NVML says that the worker's process uses of the GPU's memory with the sum of what
// its report page says that it holds, what a context was measured to take there when the server started, and kMoreBytes. Who is
// above that in kSecondsInARow of the broker's words in a row is found, once while the session lives.
//
// Nobody is to be accused wrongly. kMoreBytes is for what no ledger counts: further contexts of the program, code that the driver
// loads late, and a context where none was measured. NVML's figures are late, so of what was said the
// largest of the last kReportedMax seconds counts. A finding is for people to look at: it ends no session.
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
  // Found sessions that are remembered; beyond them the oldest is forgotten.
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
  // Who is found by these figures, which were asked for after what was heard last.
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
