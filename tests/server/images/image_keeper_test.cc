// The keeper, on a thread, and workers' ends of sockets to it.
#include "server/images/image_keeper.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "protocol/base/clock.h"
#include "protocol/channel/unix_socket.h"
#include "server/images/image_socket.h"
#include "tests/server/images/image_fixture.h"

namespace tessera {
namespace {

class ImageKeeperTest : public ImageTest {
 protected:
  ~ImageKeeperTest() override {
    keeper_.reset();  // its end of the socket goes: the threads see the daemon gone
    for (std::thread& thread : threads_) thread.join();
  }

  UniqueFd Connect() {
    Result<UniqueFd> socket = keeper_->Connect();
    EXPECT_TRUE(socket.ok()) << socket.status().message();
    return std::move(socket).value();
  }
  // An offer has no answer.
  static bool Appears(SocketImageCache& cache, const Image& image) {
    const uint64_t deadline_ns = MonotonicNs() + 10'000'000'000;
    while (MonotonicNs() < deadline_ns) {
      if (Equal(cache.Find(image.key, image.bytes.size()), image)) return true;
      usleep(1000);
    }
    return false;
  }

  std::vector<std::thread> threads_;
  std::unique_ptr<ImageKeeper> keeper_ = std::make_unique<ImageKeeper>([this](int socket) {
    threads_.emplace_back([this, fd = dup(socket)] {
      const UniqueFd owned(fd);
      RunImageKeeper(fd, path_, 1 << 20);
    });
    return Status::Ok();
  });
};

TEST_F(ImageKeeperTest, WhatOneWorkerOffersAnotherFinds) {
  SocketImageCache first(Connect()), second(Connect());
  const Image image = Make(70'000, 1);
  EXPECT_EQ(first.Find(image.key, 70'000).status().code(), StatusCode::kNotFound);
  const ImageReceiver receiver = Receive(image);
  first.Offer(image.key, 70'000, receiver.file());
  EXPECT_TRUE(Appears(second, image));
  EXPECT_EQ(second.Find(Make(70'000, 2).key, 70'000).status().code(), StatusCode::kNotFound);
}

TEST_F(ImageKeeperTest, AWorkerThatLiesOrTalksNonsenseHarmsNobody) {
  const Image image = Make(1000, 1), other = Make(1000, 2);
  SocketImageCache honest(Connect());
  {
    SocketImageCache liar(Connect());
    const ImageReceiver receiver = Receive(other);
    liar.Offer(image.key, 1000, receiver.file());
  }
  const UniqueFd nonsense = Connect();
  const std::array<std::byte, 7> words{};
  ASSERT_TRUE(SendMessage(nonsense.get(), words, {}, 0).ok());
  EXPECT_EQ(ReceiveMessage(nonsense.get(), 1, MonotonicNs() + 5'000'000'000).status().code(), StatusCode::kUnavailable);
  const ImageReceiver receiver = Receive(other);
  honest.Offer(other.key, 1000, receiver.file());
  EXPECT_TRUE(Appears(honest, other));  // written after what the liar offered
  EXPECT_EQ(honest.Find(image.key, 1000).status().code(), StatusCode::kNotFound);
}

TEST_F(ImageKeeperTest, WithoutADirectoryThereAreNoImages) {
  path_ = "/proc/nowhere/images";
  SocketImageCache cache(Connect());
  EXPECT_EQ(cache.Find(Make(10, 1).key, 10).status().code(), StatusCode::kNotFound);
}

TEST_F(ImageKeeperTest, AKeeperThatDoesNotAnswerIsAskedOnce) {
  Result<std::pair<UniqueFd, UniqueFd>> ends = MakeSocketPair();
  SocketImageCache cache(std::move(ends->second), 20'000'000);
  EXPECT_EQ(cache.Find(Make(10, 1).key, 10).status().code(), StatusCode::kUnavailable);
  const uint64_t start_ns = MonotonicNs();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(cache.Find(Make(10, 1).key, 10).status().code(), StatusCode::kUnavailable);
  EXPECT_LT(MonotonicNs() - start_ns, 10'000'000'000u) << "each question waited";
}

TEST_F(ImageKeeperTest, OneThatHasEndedIsStartedAgain) {
  int started = 0;
  std::vector<UniqueFd> processes;
  ImageKeeper keeper([&](int socket) {
    ++started;
    processes.emplace_back(dup(socket));
    return Status::Ok();
  });
  ASSERT_TRUE(keeper.Connect().ok());
  ASSERT_TRUE(keeper.Connect().ok());
  EXPECT_EQ(started, 1);
  processes.clear();
  ASSERT_TRUE(keeper.Connect().ok());
  EXPECT_EQ(started, 2);
}

}  // namespace
}  // namespace tessera
