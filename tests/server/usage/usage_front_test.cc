// The broker's side, with a keeper that answers as the test wants.
#include "server/broker/usage/usage_front.h"

#include <gtest/gtest.h>

#include <future>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/channel/unix_socket.h"
#include "tests/server/usage/usage_fixture.h"

namespace tessera {
namespace {

class UsageFrontTest : public testing::Test {
 protected:
  UsageFrontTest() {
    Result<std::pair<UniqueFd, UniqueFd>> ends = MakeSocketPair();
    keeper_ = std::move(ends->second);
    front_ = UsageFront::Start(std::move(ends->first), board_).value();
  }
  Result<SocketMessage> Receive() { return ReceiveMessage(keeper_.get(), kUsageMessageBytesMax, MonotonicNs() + 10'000'000'000); }
  void Answer(const UsageAnswer& answer) {
    Encoder out(kUsageMessageBytesMax);
    answer.Encode(out);
    EXPECT_TRUE(SendMessage(keeper_.get(), out.bytes(), {}, MonotonicNs() + 1'000'000'000).ok());
  }
  std::future<UsageFront::Rows> Ask() {
    auto heard = std::make_shared<std::promise<UsageFront::Rows>>();
    front_->Ask(UsageOf("a"), [heard](UsageFront::Rows rows) { heard->set_value(std::move(rows)); });
    return heard->get_future();
  }

  // Its thread goes on: as long as the process.
  MetricsBoard& board_ = *new MetricsBoard;
  UniqueFd keeper_;
  UsageFront* front_ = nullptr;
};

TEST_F(UsageFrontTest, TellsWhatIsPublished) {
  Metrics metrics;
  VgpuMetrics vgpu;
  vgpu.name = "a";
  vgpu.sessions = 1;
  metrics.vgpus.push_back(vgpu);
  board_.Publish(metrics);
  Result<SocketMessage> message = Receive();
  ASSERT_TRUE(message.ok());
  Result<UsageBatch> batch = UsageBatch::Decode(message->bytes);
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->records.at(0).name, "a");
  EXPECT_NEAR(static_cast<double>(batch->second), static_cast<double>(time(nullptr)), 3);
}

TEST_F(UsageFrontTest, JoinsThePartsOfAnAnswer) {
  std::future<UsageFront::Rows> rows = Ask();
  Result<SocketMessage> message = Receive();
  ASSERT_TRUE(message.ok());
  UsageAnswer answer;
  answer.id = UsageQuery::Decode(message->bytes)->id;
  answer.rows = {{"a", "GPU-1", 0, 1, {}}};
  answer.goes_on = true;
  Answer(answer);
  answer.goes_on = false;
  Answer(answer);
  EXPECT_EQ(rows.get()->size(), 2U);
  Answer(answer);  // nobody asks any more
  std::future<UsageFront::Rows> later = Ask();
  message = Receive();
  ASSERT_TRUE(message.ok());
  answer.id = UsageQuery::Decode(message->bytes)->id;
  Answer(answer);
  EXPECT_EQ(later.get()->size(), 1U);
}

TEST_F(UsageFrontTest, AnErrorIsTheKeepers) {
  std::future<UsageFront::Rows> rows = Ask();
  Result<SocketMessage> message = Receive();
  UsageAnswer answer;
  answer.id = UsageQuery::Decode(message->bytes)->id;
  answer.code = StatusCode::kResourceExhausted;
  answer.sentence = "too much";
  Answer(answer);
  EXPECT_EQ(rows.get().status().message(), "too much");
}

TEST_F(UsageFrontTest, TooManyAreTurnedAway) {
  std::vector<std::future<UsageFront::Rows>> asked;
  for (size_t i = 0; i < UsageFront::kAskedMax; ++i) asked.push_back(Ask());
  EXPECT_EQ(Ask().get().status().code(), StatusCode::kUnavailable);
}

TEST_F(UsageFrontTest, AKeeperThatHasGoneIsSaidAtOnce) {
  keeper_.reset();
  EXPECT_EQ(Ask().get().status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tessera
