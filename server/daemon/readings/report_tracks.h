// What is remembered of each session and GPU that the broker tells of, from one of its messages to the next: the common part of
// what compares reports with NVML's figures (audit.h, memory_audit.h, memory_doubts.h). One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "server/gate/broker_line.h"

namespace tessera {

// What the daemon itself knows of a session's worker on one GPU. What the worker says of itself may be made up.
struct AuditedWorker {
  // By the worker: it may still run what it was given before the GPU came to be shared, which nobody reports.
  bool may_have_backlog = false;
  // Its vGPU has a limit of memory there. Without one the ledger leaves out the variables of modules.
  bool is_limited = false;
  // By the worker: how many contexts it has made there, and how much code its modules and libraries have, in all.
  uint64_t contexts = 1;
  uint64_t code_bytes = 0;
};
using AskOfWorker = std::function<AuditedWorker(uint64_t session, uint32_t device)>;

template <typename Track>
class ReportTracks {
 public:
  using Part = std::pair<uint64_t, uint32_t>;  // session, GPU

  // Calls `hear(part, row, track)` for each row of the message. A track begins as Track(); one whose row is missing is forgotten.
  template <typename HearRow>
  void Hear(const ReportedMessage& reported, const HearRow& hear) {
    std::map<Part, Track> former;
    former.swap(tracks_);
    for (const ReportedMessage::Row& row : reported.rows) {
      const Part part{row.session, row.device};
      auto node = former.extract(part);
      Track& track = node.empty() ? tracks_[part] : tracks_.insert(std::move(node)).position->second;
      hear(part, row, track);
    }
  }

  auto begin() { return tracks_.begin(); }
  auto end() { return tracks_.end(); }
  bool HasSession(uint64_t session) const {
    const auto found = tracks_.lower_bound({session, 0});
    return found != tracks_.end() && found->first.first == session;
  }

 private:
  std::map<Part, Track> tracks_;
};

}  // namespace tessera
