// What one worker reports of one GPU, turned into what GpuTime is told.
//
// The page may hold any bytes, and change while it is read. Each word is read once; a time counts as one between the last look
// and now; a look tells at most ReportPage::kSpans spans. So what a worker makes up is billed to its own vGPU, and costs no more
// than what is true.
//
// Free and armed: whether it works is all that is told. Metered: wants, spans, what is queued. Where more spans have ended since
// the last look than the page keeps, the time of those that are lost counts as busy: a worker wakes the broker for each rest that
// is not short (server/worker/gate_report.h). One thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scheduler/simulate/traced_gpu_time.h"
#include "server/gate/report_page.h"

namespace tessera {

class RowWatch {
 public:
  // `page` outlives it. What ended before `now_ns` is nobody's, and what goes on counts from there. `alone`: of the session's
  // rows, which have one count of records in common, this is the only one.
  RowWatch(const ReportPage& page, size_t row, bool alone, int64_t now_ns);

  // Tells what is new, as the work of `session`; whether there was anything. Time does not go back.
  bool Look(TracedGpuTime& time, SessionId session, int64_t now_ns);
  // How long it was looked at while the GPU was not free, and how long of that it has said to be busy: as it was billed, or,
  // armed, from one look to the next where it worked. What passes from one mode to another counts in neither.
  struct Reported {
    int64_t watched_ns = 0;
    int64_t busy_ns = 0;
  };
  const Reported& reported() const { return reported_; }
  // When a record was last seen to wait at the gate, or to have passed it since the look before; negative: never. Looks see it
  // armed and metered.
  int64_t gated_ns() const { return gated_ns_; }
  // What the worker had in its driver when the GPU came to be shared, at `shared_ns`, as a time: from then until the driver was
  // first seen to have done everything. 0: there was nothing. `runs`: it has not been seen yet, or nothing is known.
  struct Backlog {
    int64_t took_ns = 0;
    bool runs = false;
  };
  Backlog QueuedBefore(int64_t shared_ns, int64_t now_ns) const;
  // The mode has become another: GpuTime knows nothing of what was told, and what is counted counts from the next look on.
  void Forget();

 private:
  void CountReported(bool metered, int64_t now_ns);
  void LookForWork(TracedGpuTime& time, SessionId session, int64_t now_ns);
  void LookForSpans(TracedGpuTime& time, SessionId session, int64_t now_ns);
  void TellSpans(TracedGpuTime& time, SessionId session, uint64_t count, int64_t now_ns);
  void TellWants(TracedGpuTime& time, SessionId session, bool wants, int64_t at_ns);
  void TellBusy(TracedGpuTime& time, SessionId session, bool busy, int64_t at_ns);
  void TellQueued(TracedGpuTime& time, SessionId session, int64_t now_ns);
  bool CountsRose();
  // A time of the page as one since the last look.
  int64_t SinceLook(uint64_t at_ns, int64_t now_ns) const;

  const ReportPage& page_;
  const ReportPage::Row& row_;
  const bool alone_;
  int64_t looked_ns_;
  // As of the last look.
  uint64_t executed_ = 0;
  uint64_t launches_ = 0;
  uint64_t gated_ = 0;  // launches, too
  uint64_t spans_ = 0;
  uint64_t queued_at_ns_ = 0;
  uint64_t last_end_ns_ = 0;     // of a span, by the page
  bool counts_are_old_ = false;  // they have not been looked at for long: what has happened since is no news
  int64_t gated_ns_ = -1;
  bool told_ = false;  // something, by this look
  // As GpuTime was told.
  bool wants_ = false;
  bool busy_ = false;

  Reported reported_;
  bool mode_is_new_ = true;       // since the last look
  int64_t counted_until_ns_ = 0;  // of the time since `busy_` is true
  int64_t look_busy_ns_ = 0;      // since the last look
};

}  // namespace tessera
