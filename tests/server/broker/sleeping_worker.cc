#include "tests/server/broker/sleeping_worker.h"

#include <chrono>

#include "protocol/base/clock.h"
#include "protocol/channel/waiting.h"

namespace tessera {

SleepingWorker::SleepingWorker() {
  pages_.report().visible_rows = 1;
  thread_ = std::thread([this] { Run(); });
}

SleepingWorker::~SleepingWorker() { Kill(); }

void SleepingWorker::Kill() {
  ends_ = true;
  FutexWakeAll(&pages_.gate().changes);
  if (thread_.joinable()) thread_.join();
  process_.Kill();
}

bool SleepingWorker::IsOpen() {
  const GateWord word = pages_.Word();
  return word.mode != GateMode::kMetered || MonotonicNs() < word.open_until_ns;
}

void SleepingWorker::Run() {
  while (!ends_) {
    if (IsOpen()) {
      RunOnePiece();
    } else {
      EndSpan();
      AwaitToken();
    }
  }
}

void SleepingWorker::RunOnePiece() {
  ReportPage::Row& row = pages_.report().rows[0];
  const uint64_t begin_ns = MonotonicNs();
  if (row.busy_since_ns == 0) row.busy_since_ns = begin_ns;
  row.wants_since_ns = 0;
  ++row.launches;
  ++pages_.report().executed;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  used_ns_ += MonotonicNs() - begin_ns;
}

void SleepingWorker::EndSpan() {
  ReportPage::Row& row = pages_.report().rows[0];
  if (row.busy_since_ns == 0) return;
  const uint64_t count = row.span_count;
  row.spans[count % ReportPage::kSpans].begin_ns = row.busy_since_ns.load();
  row.spans[count % ReportPage::kSpans].end_ns = MonotonicNs();
  row.span_count = count + 1;
  row.busy_since_ns = 0;
}

void SleepingWorker::AwaitToken() {
  ReportPage::Row& row = pages_.report().rows[0];
  row.wants_since_ns = MonotonicNs();
  pages_.Ring();
  for (;;) {
    const uint32_t changes = pages_.gate().changes;
    if (IsOpen() || ends_) return;
    FutexWait(&pages_.gate().changes, changes, 50'000'000);
  }
}

}  // namespace tessera
