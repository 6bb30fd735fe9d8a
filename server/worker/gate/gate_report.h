// What the gate tells the broker: one row of the worker's report page, and when the broker is woken for it.
//
// Written by the executor, but for WentOn(). A span is exact in the page as soon as it is over; the broker is woken for a rest
// only when that has lasted for kShortRestNs, since a program that waits for each of its launches rests after each.
#pragma once

#include <cstdint>

#include "server/gate/report_page.h"

namespace tessera {

class GateReport {
 public:
  static constexpr uint64_t kShortRestNs = 20'000;

  // `row` and `event_fd` outlive it.
  GateReport(ReportPage::Row& row, int event_fd) : row_(row), event_fd_(event_fd) {}

  // Work waits at the gate since then. `wakes`: for a token, which the broker has to know of.
  void WaitBegan(uint64_t now_ns, bool wakes);
  void WaitEnded(uint64_t now_ns);
  // A gate of the session's GPUs has closed, and whether the driver had nothing to do; else that is told with the next Drained().
  void Engaged(uint64_t now_ns, bool idle);
  // The driver has work, of which nobody knows when it went in.
  void BusyBegan(uint64_t now_ns);
  // The span that goes on begins now, but no more than `later_ns` after it was believed to.
  void BeginsBy(uint64_t now_ns, uint64_t later_ns);
  // Work went into the driver; `queued_ns`: what is queued with it.
  void Passed(uint64_t now_ns, uint64_t queued_ns);
  // The driver had done everything by then. `wakes`: at once, since somebody may wait for it.
  void Drained(uint64_t now_ns, bool wakes);
  // After Drained(): work goes on that had waited for the client. Any thread, while the executor tells of no work
  // (held_streams.h).
  void WentOn(uint64_t now_ns);
  bool busy() const { return busy_since_ns_ != 0; }
  // Nothing is told any more: the gate is free.
  void Reset();

  // When the broker is to be woken for the rest that lasts; 0: it was, or there is none.
  uint64_t wake_at_ns() const { return wake_at_ns_; }
  void Wake();

 private:
  void Ring() const;

  ReportPage::Row& row_;
  const int event_fd_;
  uint64_t wait_began_ns_ = 0;
  bool wait_told_ = false;
  bool drained_told_ = true;  // since Engaged()
  uint64_t busy_since_ns_ = 0;
  uint64_t wake_at_ns_ = 0;
};

}  // namespace tessera
