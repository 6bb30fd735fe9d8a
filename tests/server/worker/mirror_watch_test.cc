// Who looks after work that uses mirrors of host memory, with a driver whose events can be held up or refused.
#include "server/worker/memory/mirror_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "server/worker/call_context.h"
#include "tests/server/worker/fake_driver.h"
#include "tests/server/worker/test_client.h"

namespace tessera {
namespace {

std::function<CUresult()> before_record;  // another result than success is that of the call
decltype(DriverTable::cuEventRecord) record_event = nullptr;

class MirrorWatchTest : public testing::Test {
 protected:
  MirrorWatchTest() {
    before_record = [] { return CUDA_SUCCESS; };
    record_event = table_.cuEventRecord;
    table_.cuEventRecord = [](CUevent event, CUstream stream) {
      const CUresult result = before_record();
      return result == CUDA_SUCCESS ? record_event(event, stream) : result;
    };
    client_.emplace(table_);
    context_ = driver_.NewContext();
    EXPECT_EQ(client_->worker().SetContext(context_), CUDA_SUCCESS);
    stream_ = driver_.NewStream(context_);
    driver_.SetIdle(false);
    watch_.emplace(client_->worker(), [this](bool lone) { Told(lone); });
  }
  void Told(bool lone) {
    const std::lock_guard lock(mutex_);
    if (!lone) finished_ = true;
    ++told_;
    changed_.notify_all();
  }
  // As the handler of a launch in the stream does.
  void Use() {
    CallContext call(client_->worker(), RecordHeader{});
    watch_->Used(call, HandleId(0x1000), stream_);
  }
  // Waits for a few looks from now on; false when none are taken.
  bool Looks() {
    std::unique_lock lock(mutex_);
    const int until = told_ + 5;
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return told_ >= until; });
  }

  FakeDriver driver_;
  DriverTable table_ = driver_.table();
  std::optional<TestClient> client_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  int told_ = 0;                       // guarded by mutex_
  std::atomic<bool> finished_{false};  // all work was seen done
  std::optional<MirrorWatch> watch_;   // last: its thread uses the others
};

TEST_F(MirrorWatchTest, TellsUntilTheWorkIsDone) {
  Use();
  EXPECT_TRUE(Looks());
  EXPECT_TRUE(watch_->working());
  EXPECT_FALSE(finished_);
  driver_.FinishWork(stream_);
  const auto notice = client_->Next();
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->header.kind, static_cast<uint32_t>(NoticeKind::kMirrorsIdle));
  EXPECT_EQ(notice->header.extra, 1u);
  EXPECT_TRUE(finished_);
  EXPECT_FALSE(watch_->working());
  EXPECT_EQ(driver_.events_live(), 0u);
}

// A launch may have filled the driver's queue, and its kernels wait for what is told.
TEST_F(MirrorWatchTest, TellsWhileAnEventIsRecorded) {
  Use();
  before_record = [this] {
    driver_.FinishWork(stream_);  // what was recorded before
    EXPECT_TRUE(Looks());
    EXPECT_FALSE(finished_) << "work is done though its event is not recorded";
    return CUDA_SUCCESS;
  };
  Use();
  EXPECT_TRUE(watch_->working());
  EXPECT_EQ(driver_.events_made(), 1u);
}

TEST_F(MirrorWatchTest, WorkWhoseEventIsRefusedIsNeverDone) {
  Use();
  before_record = [] { return CUDA_ERROR_OUT_OF_MEMORY; };
  Use();
  before_record = [] { return CUDA_SUCCESS; };
  Use();
  driver_.FinishWork(stream_);
  EXPECT_TRUE(Looks());
  EXPECT_FALSE(finished_);
  EXPECT_TRUE(watch_->working());
}

}  // namespace
}  // namespace tessera
