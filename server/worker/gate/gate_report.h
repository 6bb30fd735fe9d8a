// Reports to the broker: writes one row of the worker's report page, and wakes the broker when needed.
//
// The executor calls everything but WentOn(). A span is exact in the page as soon as it is over. The broker is woken for a rest
// only after kShortRestNs, since a program that waits for each of its launches rests after each.
#pragma once

#include <cstdint>

#include "server/gate/report_page.h"

namespace tessera {

class GateReport {
 public:
  static constexpr uint64_t kShortRestNs = 20'000;

  // `row` and `event_fd` outlive the object.
  GateReport(ReportPage::Row& row, int event_fd) : row_(row), event_fd_(event_fd) {}

  // Work waits at the gate since then. `wakes`: it waits for a token, so the broker has to know.
  void WaitBegan(uint64_t now_ns, bool wakes);
  void WaitEnded(uint64_t now_ns);
  // A gate of the session's GPUs has closed. `idle`: the driver had nothing to do; if not, the next Drained() tells when it has.
  void Engaged(uint64_t now_ns, bool idle);
  // The driver has work, but nobody knows since when.
  void BusyBegan(uint64_t now_ns);
  // Moves the beginning of the present span to now, but by no more than `later_ns`.
  void BeginsBy(uint64_t now_ns, uint64_t later_ns);
  // Work went into the driver. `queued_ns`: the whole queue with it.
  void Passed(uint64_t now_ns, uint64_t queued_ns);
  // The driver had done everything by then. `wakes`: the broker is woken at once, since somebody may wait for it.
  void Drained(uint64_t now_ns, bool wakes);
  // After Drained(): work that had waited for the client goes on. Any thread, while the executor reports no work
  // (held_streams.h).
  void WentOn(uint64_t now_ns);
  bool busy() const { return busy_since_ns_ != 0; }
  // The gate is free: nothing is reported any more.
  void Reset();

  // When to wake the broker for the present rest; 0: it was woken, or there is no rest.
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
