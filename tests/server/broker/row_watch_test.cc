#include "server/broker/row_watch.h"

#include <gtest/gtest.h>

#include <memory>

#include "scheduler/policies/policies.h"
#include "tests/support/times.h"

namespace tessera {
namespace {

// Two vGPUs, of which the first one's only session is looked at; always metered unless told otherwise.
class RowWatchTest : public testing::Test {
 protected:
  explicit RowWatchTest(double limit = 0.5) {
    vgpu_ = time_.AddVgpu({"a", 0, limit, Priority::kNormal}, now_ns_).value();
    session_ = time_.SessionCame(vgpu_, now_ns_);
    time_.Decide(now_ns_);
    watch_ = std::make_unique<RowWatch>(*page_, 0, true, now_ns_);
  }
  bool LookAt(int64_t at_ns) {
    now_ns_ = at_ns;
    const bool told = watch_->Look(time_, session_, now_ns_);
    time_.Decide(now_ns_);
    return told;
  }
  void AddSpan(int64_t begin_ns, int64_t end_ns) {
    const uint64_t count = row().span_count;
    row().spans[count % ReportPage::kSpans].begin_ns = static_cast<uint64_t>(begin_ns);
    row().spans[count % ReportPage::kSpans].end_ns = static_cast<uint64_t>(end_ns);
    row().span_count = count + 1;
  }
  ReportPage::Row& row() { return page_->rows[0]; }
  int64_t BilledNs() const { return time_.time().ledger().BilledNs(vgpu_); }

  int64_t now_ns_ = 1'000 * kMs;
  std::unique_ptr<ReportPage> page_ = std::make_unique<ReportPage>();
  std::vector<SchedulerEvent> events_;
  TracedGpuTime time_{
      {}, std::move(MakePolicy("fair")).value(), [this](const SchedulerEvent& event) { events_.push_back(event); }};
  VgpuId vgpu_ = 0;
  SessionId session_ = 0;
  std::unique_ptr<RowWatch> watch_;
};

TEST_F(RowWatchTest, NothingNewIsNotTold) {
  EXPECT_FALSE(LookAt(1'001 * kMs));
  row().wants_since_ns = 1'001 * kMs;
  EXPECT_TRUE(LookAt(1'002 * kMs));
  EXPECT_FALSE(LookAt(1'003 * kMs));
}

TEST_F(RowWatchTest, SpansAreBilledAsTheyWere) {
  AddSpan(1'001 * kMs, 1'002 * kMs);
  AddSpan(1'003 * kMs, 1'005 * kMs);
  row().busy_since_ns = 1'006 * kMs;
  LookAt(1'007 * kMs);
  LookAt(1'008 * kMs);
  EXPECT_EQ(BilledNs(), (1 + 2 + 2) * kMs);
  row().busy_since_ns = 0;
  AddSpan(1'006 * kMs, 1'009 * kMs);
  LookAt(1'010 * kMs);
  EXPECT_EQ(BilledNs(), (1 + 2 + 3) * kMs);
}

TEST_F(RowWatchTest, ASpanThatEndsDuringTheLookIsNotOpen) {
  row().busy_since_ns = 1'001 * kMs;  // read before the count
  AddSpan(1'001 * kMs, 1'002 * kMs);
  LookAt(1'003 * kMs);
  LookAt(1'010 * kMs);
  EXPECT_EQ(BilledNs(), 1 * kMs);
}

TEST_F(RowWatchTest, WhoStopsToWantWasBusyBefore) {
  row().wants_since_ns = 1'001 * kMs;
  LookAt(1'002 * kMs);
  row().wants_since_ns = 0;
  row().busy_since_ns = 1'003 * kMs;
  events_.clear();
  LookAt(1'004 * kMs);
  ASSERT_GE(events_.size(), 2u);
  EXPECT_EQ(events_[0].kind, TraceKind::kBusy);
  EXPECT_EQ(events_[1].kind, TraceKind::kWants);
}

TEST_F(RowWatchTest, TimesAreBetweenLooks) {
  AddSpan(0, INT64_MAX);
  AddSpan(5, 3);
  row().wants_since_ns = UINT64_MAX;
  row().busy_since_ns = 7;
  row().queued_ns = UINT64_MAX;
  row().queued_at_ns = UINT64_MAX;
  LookAt(1'004 * kMs);
  for (const SchedulerEvent& event : events_) {
    EXPECT_GE(event.at_ns, 1'000 * kMs);
    EXPECT_LE(event.at_ns, 1'004 * kMs);
  }
  EXPECT_LE(BilledNs(), 4 * kMs);
}

TEST_F(RowWatchTest, LostSpansCountAsBusy) {
  for (int64_t i = 0; i < 100; ++i) AddSpan(1'001 * kMs + i * 40'000, 1'001 * kMs + i * 40'000 + 20'000);
  LookAt(1'005 * kMs);
  LookAt(1'008 * kMs);
  // 36 are lost, which began at 1,000 at the earliest; 64 are there.
  EXPECT_EQ(BilledNs(), 1 * kMs + 36 * 40'000 + 64 * 20'000);
}

TEST_F(RowWatchTest, ACountThatGoesBackTellsAtMostAPage) {
  row().span_count = 1'000;
  LookAt(1'001 * kMs);
  row().span_count = 999;
  events_.clear();
  LookAt(1'002 * kMs);
  row().span_count = UINT64_MAX;
  LookAt(1'003 * kMs);
  EXPECT_LE(events_.size(), 2 * (2 * ReportPage::kSpans + 2));
}

TEST_F(RowWatchTest, WhatGoesOnCountsFromWhenItWasFirstSeen) {
  row().busy_since_ns = 1;
  row().span_count = 77;
  watch_ = std::make_unique<RowWatch>(*page_, 0, true, now_ns_);
  LookAt(1'002 * kMs);
  LookAt(1'003 * kMs);
  EXPECT_EQ(BilledNs(), 3 * kMs);
}

TEST_F(RowWatchTest, WhatIsReportedIsWhatIsBilled) {
  LookAt(1'001 * kMs);  // the first look counts for nothing
  AddSpan(1'002 * kMs, 1'003 * kMs);
  AddSpan(1'004 * kMs, 1'005 * kMs);
  row().busy_since_ns = 1'008 * kMs;
  LookAt(1'011 * kMs);
  EXPECT_EQ(watch_->reported().watched_ns, 10 * kMs);
  EXPECT_EQ(watch_->reported().busy_ns, (1 + 1 + 3) * kMs);
  row().busy_since_ns = 0;
  AddSpan(1'008 * kMs, 1'015 * kMs);
  LookAt(1'021 * kMs);
  EXPECT_EQ(watch_->reported().watched_ns, 20 * kMs);
  EXPECT_EQ(watch_->reported().busy_ns, (1 + 1 + 7) * kMs);
  EXPECT_EQ(watch_->reported().busy_ns, BilledNs());
  // From one mode to another.
  watch_->Forget();
  LookAt(1'031 * kMs);
  EXPECT_EQ(watch_->reported().watched_ns, 20 * kMs);
  EXPECT_EQ(watch_->reported().busy_ns, 9 * kMs);
}

TEST_F(RowWatchTest, WhatWasQueuedBeforeIsOverWhenTheDriverWasIdle) {
  const auto before = [&](int64_t shared_ms, int64_t now_ms) {
    const RowWatch::Backlog backlog = watch_->QueuedBefore(shared_ms * kMs, now_ms * kMs);
    return std::pair(backlog.took_ns / kMs, backlog.runs);
  };
  using Backlog = std::pair<int64_t, bool>;
  EXPECT_EQ(before(1'000, 1'050), Backlog(50, true));  // the worker has not seen it yet
  row().engaged_ns = 1'100 * kMs;
  EXPECT_EQ(before(1'000, 1'150), Backlog(150, true));
  row().drained_ns = 1'700 * kMs;
  EXPECT_EQ(before(1'000, 1'800), Backlog(700, false));
  EXPECT_EQ(before(1'000, 9'000), Backlog(700, false));
  EXPECT_EQ(before(5'000, 9'000), Backlog(600, false));  // a broker that was started anew
  row().drained_ns = 1'100 * kMs;
  EXPECT_EQ(before(1'000, 9'000), Backlog(0, false));  // there was nothing
  row().drained_ns = UINT64_MAX;
  row().engaged_ns = 1;
  EXPECT_EQ(before(1'000, 9'000), Backlog(8'999, false));
}

class RowWatchArmedTest : public RowWatchTest {
 protected:
  RowWatchArmedTest() : RowWatchTest(1) {}
};

TEST_F(RowWatchArmedTest, WorkIsSeenByCountsAndByRows) {
  EXPECT_FALSE(LookAt(1'001 * kMs));
  page_->executed = 1;
  EXPECT_TRUE(LookAt(1'002 * kMs));
  EXPECT_FALSE(LookAt(1'003 * kMs));
  row().launches = 1;
  EXPECT_TRUE(LookAt(1'004 * kMs));
  row().busy_since_ns = 1;
  EXPECT_TRUE(LookAt(1'005 * kMs));
  EXPECT_TRUE(LookAt(1'006 * kMs));
  row().busy_since_ns = 0;
  EXPECT_FALSE(LookAt(1'007 * kMs));
  EXPECT_EQ(time_.time().state(vgpu_).worked_at_ns, 1'006 * kMs);
}

TEST_F(RowWatchArmedTest, WhatIsReportedGoesFromLookToLook) {
  LookAt(1'001 * kMs);
  row().span_count = 1;
  LookAt(1'002 * kMs);
  LookAt(1'004 * kMs);
  row().busy_since_ns = 1;
  LookAt(1'005 * kMs);
  EXPECT_EQ(watch_->reported().watched_ns, 4 * kMs);
  EXPECT_EQ(watch_->reported().busy_ns, (1 + 1) * kMs);
}

TEST_F(RowWatchArmedTest, WhatWasCountedLongAgoIsNoNews) {
  page_->executed = 5;
  watch_->Forget();
  EXPECT_FALSE(LookAt(1'001 * kMs));
  page_->executed = 6;
  EXPECT_TRUE(LookAt(1'002 * kMs));
}

TEST_F(RowWatchArmedTest, RecordsOfASessionWithSeveralGpusAreNoWorkOfEach) {
  watch_ = std::make_unique<RowWatch>(*page_, 0, false, now_ns_);
  page_->executed = 1;
  EXPECT_FALSE(LookAt(1'001 * kMs));
  row().launches = 1;
  EXPECT_TRUE(LookAt(1'002 * kMs));
}

}  // namespace
}  // namespace tessera
