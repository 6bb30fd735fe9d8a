// The table of shares, and the socket between a worker and the daemon.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "protocol/channel/unix_socket.h"
#include "server/shares/share_socket.h"

namespace tessera {
namespace {

UniqueFd File(const char* content) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), content, 1), 1);
  return fd;
}

char ContentOf(int fd) {
  char content = 0;
  EXPECT_EQ(pread(fd, &content, 1, 0), 1);
  return content;
}

ShareFacts Facts(ShareKind kind) {
  ShareFacts facts;
  facts.kind = kind;
  facts.offset = 77;
  return facts;
}

TEST(ShareTableTest, AShareBelongsToItsSession) {
  ShareTable table;
  const ShareToken one = NewShareToken(), two = NewShareToken(), event = NewShareToken();
  EXPECT_NE(one, two);
  EXPECT_TRUE(table.Add(1, one, Facts(ShareKind::kBlock), File("a")).ok());
  EXPECT_TRUE(table.Add(2, two, Facts(ShareKind::kPool), File("b")).ok());
  EXPECT_TRUE(table.Add(2, event, Facts(ShareKind::kEvent), UniqueFd()).ok());
  EXPECT_EQ(table.Add(2, one, Facts(ShareKind::kBlock), File("c")).code(), StatusCode::kInvalidArgument) << "taken";
  EXPECT_EQ(table.Add(2, NewShareToken(), Facts(ShareKind::kBlock), UniqueFd()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(table.Add(2, NewShareToken(), Facts(ShareKind::kNone), File("d")).code(), StatusCode::kInvalidArgument);
  ASSERT_NE(table.Find(one), nullptr);
  EXPECT_EQ(ContentOf(table.Find(one)->fd.get()), 'a');
  EXPECT_EQ(table.Find(NewShareToken()), nullptr);
  table.Remove(2, one);
  EXPECT_NE(table.Find(one), nullptr) << "another session's";
  table.RemoveSession(2);
  EXPECT_EQ(table.size(), 1u);
  table.Remove(1, one);
  EXPECT_EQ(table.size(), 0u);
}

TEST(ShareTableTest, OneSessionCannotFillTheServer) {
  ShareTable table;
  for (size_t i = 0; i < ShareTable::kSessionSharesMax; ++i) {
    ASSERT_TRUE(table.Add(1, NewShareToken(), Facts(ShareKind::kEvent), UniqueFd()).ok());
  }
  const ShareToken token = NewShareToken();
  EXPECT_EQ(table.Add(1, token, Facts(ShareKind::kEvent), UniqueFd()).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(table.Add(2, token, Facts(ShareKind::kEvent), UniqueFd()).ok());
}

TEST(ShareTableTest, OneHolderCannotTakeTheDescriptorsOfOthers) {
  ShareTable table(100, 40);
  table.Enter(1, "a");
  table.Enter(2, "a");
  table.Enter(3, "b");
  const auto share = [&](uint64_t session) {
    return table.Add(session, NewShareToken(), Facts(ShareKind::kBlock), File("x")).code();
  };
  for (int i = 0; i < 60; ++i) ASSERT_EQ(share(1 + i % 2), StatusCode::kOk) << i;
  EXPECT_EQ(share(1), StatusCode::kResourceExhausted);
  EXPECT_EQ(share(2), StatusCode::kResourceExhausted);
  EXPECT_TRUE(table.Add(1, NewShareToken(), Facts(ShareKind::kEvent), UniqueFd()).ok()) << "needs none";
  for (int i = 0; i < 20; ++i) ASSERT_EQ(share(3), StatusCode::kOk) << i;
  table.RemoveSession(1);
  EXPECT_EQ(table.descriptors().held("a"), 30u);
  EXPECT_EQ(table.objects().held("a"), 30u);
  table.RemoveSession(2);
  table.RemoveSession(3);
  EXPECT_EQ(table.descriptors().used() + table.objects().used(), 0u);
}

TEST(ShareTableTest, ASessionCanShareFourThousandOfAUsualServer) {
  ShareTable table(14'800, 8192);
  table.Enter(1, "a");
  table.Enter(2, "b");
  for (const uint64_t session : {1, 2}) {
    for (int i = 0; i < 4096; ++i) {
      ASSERT_TRUE(table.Add(session, NewShareToken(), Facts(ShareKind::kBlock), UniqueFd(dup(0))).ok()) << i;
    }
  }
}

// A daemon with two workers' sockets.
class ShareSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) {
      auto ends = MakeSocketPair();
      ASSERT_TRUE(ends.ok());
      daemon_ends_[i] = std::move(ends->first);
      workers_[i] = std::make_unique<SocketShareBroker>(std::move(ends->second));
    }
    daemon_ = std::thread([this] {
      while (!stop_) {
        pollfd ready[2] = {{daemon_ends_[0].get(), POLLIN, 0}, {daemon_ends_[1].get(), POLLIN, 0}};
        poll(ready, 2, 20);
        for (int i = 0; i < 2; ++i) {
          if (daemon_ends_[i].valid() && !ServeShares(daemon_ends_[i].get(), i, table_).ok()) daemon_ends_[i].reset();
        }
      }
    });
  }
  void TearDown() override {
    stop_ = true;
    daemon_.join();
  }

  ShareTable table_;
  UniqueFd daemon_ends_[2];
  std::unique_ptr<SocketShareBroker> workers_[2];
  std::atomic<bool> stop_{false};
  std::thread daemon_;
};

TEST_F(ShareSocketTest, WhatOneWorkerPublishesAnotherFetches) {
  const ShareToken token = NewShareToken(), event = NewShareToken();
  const UniqueFd file = File("x");
  ASSERT_TRUE(workers_[0]->Publish(token, Facts(ShareKind::kBlock), file.get()).ok());
  ShareFacts facts = Facts(ShareKind::kEvent);
  facts.event[63] = std::byte{9};
  ASSERT_TRUE(workers_[0]->Publish(event, facts, -1).ok());
  const Status taken = workers_[1]->Publish(token, Facts(ShareKind::kBlock), file.get());
  EXPECT_EQ(taken.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(taken.message(), "a share under a token that is taken");
  Result<Share> share = workers_[1]->Fetch(token);
  ASSERT_TRUE(share.ok());
  EXPECT_EQ(share->facts.kind, ShareKind::kBlock);
  EXPECT_EQ(share->facts.offset, 77u);
  EXPECT_NE(share->fd.get(), file.get());
  EXPECT_EQ(ContentOf(share->fd.get()), 'x');
  Result<Share> shared_event = workers_[1]->Fetch(event);
  ASSERT_TRUE(shared_event.ok());
  EXPECT_FALSE(shared_event->fd.valid());
  EXPECT_EQ(shared_event->facts.event[63], std::byte{9});
  EXPECT_EQ(workers_[1]->Fetch(NewShareToken()).status().code(), StatusCode::kNotFound);
  workers_[1]->Revoke(token);
  EXPECT_TRUE(workers_[1]->Fetch(token).ok()) << "only its own session ends it";
  workers_[0]->Revoke(token);
  EXPECT_EQ(workers_[1]->Fetch(token).status().code(), StatusCode::kNotFound);
}

// The answer to one question must never be taken for that to the next.
TEST(ShareSocketTimeTest, ALateAnswerIsNobodys) {
  auto ends = MakeSocketPair();
  ASSERT_TRUE(ends.ok());
  ShareTable table;
  const ShareToken first = NewShareToken(), second = NewShareToken();
  ASSERT_TRUE(table.Add(1, first, Facts(ShareKind::kEvent), UniqueFd()).ok());
  ASSERT_TRUE(table.Add(1, second, Facts(ShareKind::kEvent), UniqueFd()).ok());
  SocketShareBroker worker(std::move(ends->second), 1'000'000);
  EXPECT_FALSE(worker.Fetch(first).ok()) << "nobody answers";
  // What there is to answer is answered now; the worker's end may be closed.
  (void)ServeShares(ends->first.get(), 1, table).ok();
  EXPECT_FALSE(worker.Fetch(second).ok());
}

}  // namespace
}  // namespace tessera
