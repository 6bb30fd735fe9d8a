// What one worker and the broker share (server/gate), as the daemon makes it: the gate page, the report page, an eventfd. The
// worker gets the gate page for reading alone: its descriptor was opened so, and it keeps no more than the mapping, from which
// there is no way back to the file. One thread.
#pragma once

#include <span>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "server/daemon/readings/report_tracks.h"
#include "server/gate/broker_line.h"
#include "server/gate/gate_end.h"

namespace tessera {

class GateMemory {
 public:
  // `gpus`: of the server, in the order of its rows. `context_bytes`: what a context takes of each, as far as that is known.
  static Result<GateMemory> Make(std::span<const GpusMessage::Uuid> gpus, std::span<const uint64_t> context_bytes = {});

  // Tells the worker that its session ends, and why.
  void SayEnd(GateEnd why) const;
  // What the session's vGPU may hold of the memory of a GPU. Before the worker has its client.
  Status SetMemoryLimit(uint32_t row, uint64_t bytes) const;
  // What the session's first context there takes of that limit; without, nothing. Likewise.
  Status SetContextBytes(uint32_t row, uint64_t bytes) const;
  // For the audit: what the two pages say now of the worker on a GPU.
  AuditedWorker Audited(uint32_t row) const;

  int gate_fd() const { return gate_.get(); }                // may be written
  int worker_gate_fd() const { return worker_gate_.get(); }  // may be read
  int report_fd() const { return report_.get(); }
  int event_fd() const { return event_.get(); }

 private:
  // A word of the gate page.
  Status Set(size_t at, uint64_t value) const;

  UniqueFd gate_;
  UniqueFd worker_gate_;
  UniqueFd report_;
  UniqueFd event_;
};

}  // namespace tessera
