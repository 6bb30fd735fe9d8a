#include "server/broker/row_watch.h"

#include <algorithm>

namespace tessera {
namespace {

uint64_t Read(const std::atomic<uint64_t>& word) { return word.load(std::memory_order_acquire); }

int64_t AsTime(uint64_t ns) { return static_cast<int64_t>(std::min<uint64_t>(ns, INT64_MAX)); }

}  // namespace

RowWatch::RowWatch(const ReportPage& page, size_t row, bool alone, int64_t now_ns)
    : page_(page), row_(page.rows[row]), alone_(alone), looked_ns_(now_ns) {
  CountsRose();
  gated_ = launches_;
}

bool RowWatch::Look(TracedGpuTime& time, SessionId session, int64_t now_ns) {
  told_ = false;
  const uint64_t gated = Read(row_.launches);
  if (gated != gated_ || Read(row_.wants_since_ns) != 0) gated_ns_ = now_ns;
  gated_ = gated;
  const bool metered = time.time().mode() == GpuMode::kMetered;
  if (metered) {
    LookForSpans(time, session, now_ns);
  } else {
    LookForWork(time, session, now_ns);
  }
  CountReported(metered, now_ns);
  looked_ns_ = now_ns;
  return told_;
}

void RowWatch::Forget() {
  wants_ = busy_ = false;
  counts_are_old_ = true;
  mode_is_new_ = true;
}

void RowWatch::CountReported(bool metered, int64_t now_ns) {
  if (busy_) {
    look_busy_ns_ += now_ns - counted_until_ns_;
    counted_until_ns_ = now_ns;
  }
  if (!mode_is_new_) {
    reported_.watched_ns += now_ns - looked_ns_;
    reported_.busy_ns += metered ? look_busy_ns_ : told_ ? now_ns - looked_ns_ : 0;
  }
  mode_is_new_ = false;
  look_busy_ns_ = 0;
}

// Whether any has, since the last call.
bool RowWatch::CountsRose() {
  const uint64_t executed = alone_ ? Read(page_.executed) : 0;
  const uint64_t launches = Read(row_.launches);
  const uint64_t spans = Read(row_.span_count);
  const bool rose = executed != executed_ || launches != launches_ || spans != spans_;
  executed_ = executed;
  launches_ = launches;
  spans_ = spans;
  return rose;
}

void RowWatch::LookForWork(TracedGpuTime& time, SessionId session, int64_t now_ns) {
  const bool rose = CountsRose() && !counts_are_old_;
  counts_are_old_ = false;
  if (!rose && Read(row_.wants_since_ns) == 0 && Read(row_.busy_since_ns) == 0) return;
  time.Worked(session, now_ns);
  told_ = true;
}

void RowWatch::LookForSpans(TracedGpuTime& time, SessionId session, int64_t now_ns) {
  // In this order: a worker is busy before it wants nothing more, and counts a span before it is idle.
  const uint64_t wants_since_ns = Read(row_.wants_since_ns);
  uint64_t busy_since_ns = Read(row_.busy_since_ns);
  const uint64_t count = Read(row_.span_count);
  if (wants_since_ns != 0 && !wants_) TellWants(time, session, true, SinceLook(wants_since_ns, now_ns));
  TellSpans(time, session, count, now_ns);
  if (busy_since_ns < last_end_ns_) busy_since_ns = 0;  // it has ended while the row was read
  if (busy_since_ns != 0 && !busy_) TellBusy(time, session, true, SinceLook(busy_since_ns, now_ns));
  if (busy_since_ns == 0 && busy_) TellBusy(time, session, false, now_ns);
  if (busy_) TellQueued(time, session, now_ns);
  if (wants_since_ns == 0 && wants_) TellWants(time, session, false, now_ns);
}

// Those that have ended since the last look, up to the one of number `count`.
void RowWatch::TellSpans(TracedGpuTime& time, SessionId session, uint64_t count, int64_t now_ns) {
  const bool went_back = count < spans_;
  const uint64_t since = went_back ? 0 : spans_;
  const bool some_lost = count - since > ReportPage::kSpans;
  const uint64_t first = some_lost ? count - ReportPage::kSpans : since;
  spans_ = count;
  int64_t told_until_ns = looked_ns_;
  for (uint64_t number = first; number != count; ++number) {
    const ReportPage::Span& span = row_.spans[number % ReportPage::kSpans];
    const bool after_lost = number == first && some_lost && !went_back;
    const int64_t begin_ns = after_lost ? looked_ns_ : std::max(told_until_ns, SinceLook(Read(span.begin_ns), now_ns));
    last_end_ns_ = Read(span.end_ns);
    told_until_ns = std::max(begin_ns, SinceLook(last_end_ns_, now_ns));
    if (!busy_) TellBusy(time, session, true, begin_ns);
    TellBusy(time, session, false, told_until_ns);
  }
}

void RowWatch::TellWants(TracedGpuTime& time, SessionId session, bool wants, int64_t at_ns) {
  time.SetWants(session, wants, at_ns);
  wants_ = wants;
  told_ = true;
}

void RowWatch::TellBusy(TracedGpuTime& time, SessionId session, bool busy, int64_t at_ns) {
  time.SetBusy(session, busy, at_ns);
  if (!busy) look_busy_ns_ += at_ns - counted_until_ns_;
  counted_until_ns_ = at_ns;
  busy_ = busy;
  told_ = true;
}

void RowWatch::TellQueued(TracedGpuTime& time, SessionId session, int64_t now_ns) {
  const uint64_t at_ns = Read(row_.queued_at_ns);
  if (at_ns == queued_at_ns_) return;
  queued_at_ns_ = at_ns;
  time.SetQueued(session, AsTime(Read(row_.queued_ns)), SinceLook(at_ns, now_ns));
  told_ = true;
}

RowWatch::Backlog RowWatch::QueuedBefore(int64_t shared_ns, int64_t now_ns) const {
  const int64_t engaged_ns = AsTime(Read(row_.engaged_ns));
  const int64_t drained_ns = AsTime(Read(row_.drained_ns));
  if (engaged_ns != 0 && drained_ns == engaged_ns) return {};
  // A worker sees late that a gate has closed, when its driver lets nothing more in; it has seen it before a broker that was
  // started anew, or before another of its GPUs was shared.
  const int64_t from_ns = engaged_ns == 0 ? shared_ns : std::min(shared_ns, engaged_ns);
  const bool runs = drained_ns < from_ns;
  const int64_t until_ns = runs ? now_ns : std::min(drained_ns, now_ns);
  return {std::max<int64_t>(until_ns - from_ns, 0), runs};
}

int64_t RowWatch::SinceLook(uint64_t at_ns, int64_t now_ns) const { return std::clamp(AsTime(at_ns), looked_ns_, now_ns); }

}  // namespace tessera
