#include "server/worker/gate/gate_report.h"

#include <unistd.h>

#include <algorithm>

namespace tessera {
namespace {

// There is one writer.
void Add(std::atomic<uint64_t>& sum, uint64_t more) {
  sum.store(sum.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

}  // namespace

void GateReport::WaitBegan(uint64_t now_ns, bool wakes) {
  if (wait_began_ns_ == 0) {
    wait_began_ns_ = now_ns;
    row_.wants_since_ns.store(now_ns, std::memory_order_release);
  }
  if (!wakes || wait_told_) return;
  wait_told_ = true;
  Wake();
}

void GateReport::WaitEnded(uint64_t now_ns) {
  if (wait_began_ns_ == 0) return;
  const uint64_t waited_ns = now_ns - wait_began_ns_;
  Add(row_.waited_ns, waited_ns);
  row_.longest_wait_ns.store(std::max(row_.longest_wait_ns.load(std::memory_order_relaxed), waited_ns),
                             std::memory_order_relaxed);
  wait_began_ns_ = 0;
  wait_told_ = false;
  row_.wants_since_ns.store(0, std::memory_order_release);
}

void GateReport::Engaged(uint64_t now_ns, bool idle) {
  row_.drained_ns.store(idle ? now_ns : 0, std::memory_order_relaxed);
  row_.engaged_ns.store(now_ns, std::memory_order_release);
  drained_told_ = idle;
}

void GateReport::BusyBegan(uint64_t now_ns) {
  if (busy_since_ns_ != 0) return;
  busy_since_ns_ = now_ns;
  row_.busy_since_ns.store(now_ns, std::memory_order_release);
}

void GateReport::BeginsBy(uint64_t now_ns, uint64_t later_ns) {
  if (busy_since_ns_ == 0) return;
  busy_since_ns_ = std::min(now_ns, busy_since_ns_ + later_ns);
  row_.busy_since_ns.store(busy_since_ns_, std::memory_order_release);
}

void GateReport::Passed(uint64_t now_ns, uint64_t queued_ns) {
  Add(row_.launches, 1);
  row_.queued_ns.store(queued_ns, std::memory_order_relaxed);
  row_.queued_at_ns.store(now_ns, std::memory_order_relaxed);
  wake_at_ns_ = 0;
  BusyBegan(now_ns);
}

void GateReport::Drained(uint64_t now_ns, bool wakes) {
  if (!drained_told_) {
    drained_told_ = true;
    row_.drained_ns.store(now_ns, std::memory_order_release);
  }
  if (busy_since_ns_ == 0) return;
  const uint64_t count = row_.span_count.load(std::memory_order_relaxed);
  ReportPage::Span& span = row_.spans[count % ReportPage::kSpans];
  span.begin_ns.store(busy_since_ns_, std::memory_order_relaxed);
  span.end_ns.store(now_ns, std::memory_order_relaxed);
  busy_since_ns_ = 0;
  // Whoever sees that it is idle sees the span.
  row_.span_count.store(count + 1, std::memory_order_release);
  row_.busy_since_ns.store(0, std::memory_order_release);
  row_.queued_ns.store(0, std::memory_order_relaxed);
  wake_at_ns_ = now_ns + kShortRestNs;
  // Spans that the page has no room for any more are billed as one.
  if (wakes || (count + 1) % (ReportPage::kSpans / 2) == 0) Wake();
}

void GateReport::WentOn(uint64_t now_ns) {
  BusyBegan(now_ns);
  Ring();  // it has no token, as a rule
}

void GateReport::Reset() {
  wait_began_ns_ = 0;
  wait_told_ = false;
  busy_since_ns_ = 0;
  wake_at_ns_ = 0;
  drained_told_ = true;
  row_.engaged_ns.store(0, std::memory_order_relaxed);
  row_.drained_ns.store(0, std::memory_order_relaxed);
  row_.wants_since_ns.store(0, std::memory_order_relaxed);
  row_.busy_since_ns.store(0, std::memory_order_relaxed);
  row_.queued_ns.store(0, std::memory_order_relaxed);
}

void GateReport::Wake() {
  wake_at_ns_ = 0;
  Ring();
}

void GateReport::Ring() const {
  const uint64_t one = 1;
  // A broker that does not read is woken as it is: the count is full only after 2^64 - 1 of these.
  if (write(event_fd_, &one, sizeof(one)) < 0) return;
}

}  // namespace tessera
