// The client's end of a channel with a Worker behind it, in one process: sends records and reads replies by hand.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "protocol/channel/channel.h"
#include "protocol/wire/handle.h"
#include "protocol/wire/record.h"
#include "server/worker/executor.h"
#include "server/worker/worker.h"
#include "tests/server/worker/fake_driver.h"

namespace tessera {

struct TestReply {
  ReplyHeader header{};
  std::vector<std::byte> payload;
};

// A Worker that runs on a thread of its own, and the channel's client end. Used by one thread.
class TestClient {
 public:
  // `mirrored`: the channel calls itself one between two machines, though nothing carries what has to be published.
  explicit TestClient(const DriverTable& driver, const ChannelSizes& sizes = {}, const WorkerOptions& options = {},
                      bool mirrored = false);
  ~TestClient();

  Worker& worker() { return *worker_; }
  Channel& channel() { return *client_; }

  // Appends a record; its sequence.
  uint64_t Send(uint32_t call, uint32_t flags = kWantsReply, uint32_t thread = 1, HandleId context = {},
                std::span<const std::byte> message = {});
  uint64_t SendHeader(RecordHeader header, std::span<const std::byte> message = {});
  // The next record of `replies`; nothing when none came in time or the session ended.
  std::optional<TestReply> Next(int timeout_ms = 10'000);
  void Answer(uint64_t request);
  // Sends a record past the ring of commands, not to overtake record `after`; its sequence.
  uint64_t SendAside(uint32_t call, uint64_t after, std::span<const std::byte> message = {});
  // Says good-bye.
  void Leave() { client_->Leave(); }
  // What Executor::Run() returned, once it did.
  Status Join();

 private:
  std::unique_ptr<Channel> server_;
  std::unique_ptr<Channel> client_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Executor> executor_;
  std::thread thread_;
  Status why_;
  uint64_t sequence_ = 0;
  uint64_t aside_ = 0;
};

}  // namespace tessera
