// A channel between two hosts whose link is cut again and again, in one process: as Mirror, with a session that goes on.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/link/in_process_link.h"
#include "protocol/relay/relay.h"
#include "protocol/relay/returning_links.h"
#include "tests/protocol/channel/channel_fixture.h"

namespace tessera {

// How one link ends.
struct Cut {
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 2;
  int64_t after_frames = kNever;  // received at either end; of the next one only a half arrives
  bool lose = false;              // what is on its way to the other end is lost as well
};

// Both ends of one link, and what cuts it.
class Cable {
 public:
  // The client's end, the server's.
  static std::pair<std::shared_ptr<Link>, std::shared_ptr<Link>> Make(const Cut& cut) {
    auto cable = std::make_shared<Cable>(cut);
    return {std::make_shared<End>(cable, 0), std::make_shared<End>(cable, 1)};
  }
  explicit Cable(const Cut& cut) : frames_left_(cut.after_frames), lose_(cut.lose) {
    std::tie(ends_[0], ends_[1]) = MakeInProcessLink();
  }

 private:
  static Status Lost() { return Status(StatusCode::kUnavailable, "the cable was cut"); }

  class End : public Link {
   public:
    End(std::shared_ptr<Cable> cable, int side) : cable_(std::move(cable)), side_(side) {}
    ~End() override { Close(); }
    Status Send(const FrameHeader& header, std::span<const std::byte> payload) override {
      return cable_->cut_ ? Lost() : cable_->ends_[side_]->Send(header, payload);
    }
    Result<FrameHeader> Receive(const Place& place) override {
      std::span<std::byte> torn_to;
      bool torn = false;
      Result<FrameHeader> header = cable_->ends_[side_]->Receive([&](const FrameHeader& header) -> Result<std::span<std::byte>> {
        if (cable_->cut_ && cable_->lose_) return Lost();
        Result<std::span<std::byte>> to = place(header);
        if (cable_->frames_left_.fetch_sub(1) > 0 || cable_->cut_.exchange(true)) return to;
        if (!to.ok()) return to.status();
        torn = true;
        torn_to = *to;
        scratch_.resize(header.bytes);
        return std::span(scratch_);
      });
      if (!torn) return header;
      if (!torn_to.empty()) std::memcpy(torn_to.data(), scratch_.data(), torn_to.size() / 2);
      for (auto& end : cable_->ends_) end->Drop();
      return Lost();
    }
    void Close() override { cable_->ends_[side_]->Close(); }

   private:
    const std::shared_ptr<Cable> cable_;
    const int side_;
    std::vector<std::byte> scratch_;
  };

  std::atomic<int64_t> frames_left_;
  const bool lose_;
  std::atomic<bool> cut_{false};
  std::unique_ptr<Link> ends_[2];
};

class ResumableMirror {
 public:
  // The cut of link 0, 1, 2 ...; called by the client's side, which waits for it as for a connection.
  using Cuts = std::function<Cut(int link)>;

  ResumableMirror(UniqueFd client_socket, UniqueFd server_socket, Cuts cuts, uint64_t grace_ns = 20'000'000'000)
      : cuts_(std::move(cuts)), server_socket_(std::move(server_socket)), returning_(grace_ns) {
    client_thread_ = std::thread([this, socket = std::move(client_socket)]() mutable {
      Result<std::unique_ptr<Relay>> relay =
          Relay::AtClient(std::move(socket), Connect(), std::make_unique<Supply>(*this), Soon());
      ASSERT_TRUE(relay.ok()) << relay.status().message();
      client_why_ = Carry(**relay, 0);
    });
  }
  // Waits for both relays to end; the test has ended the channel, or what it waits for has.
  ~ResumableMirror() { Join(); }
  void Join() {
    if (client_thread_.joinable()) client_thread_.join();
    std::vector<std::thread> threads;
    {
      MutexLock lock(mutex_);
      threads.swap(server_threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }
  // Both relays, which have begun or are about to.
  void Abort() {
    MutexLock lock(mutex_);
    for (Relay*& relay : relays_) {
      while (relay == nullptr) begun_.wait(mutex_);
      relay->Abort();
    }
  }
  // A new link to the server's host, which nobody has spoken through.
  std::shared_ptr<Link> Connect() {
    auto [near, far] = Cable::Make(cuts_(links_.fetch_add(1)));
    MutexLock lock(mutex_);
    server_threads_.emplace_back([this, far = std::move(far)]() mutable { Serve(std::move(far)); });
    return near;
  }
  int links() const { return links_.load(); }
  // Why the relays ended; after Join().
  const Status& client_why() const { return client_why_; }
  const Status& server_why() const { return server_why_; }

 private:
  class Supply : public LinkSupply {
   public:
    explicit Supply(ResumableMirror& mirror) : mirror_(mirror) {}
    Result<NextLink> Next(uint64_t deadline_ns) override {
      if (stopped_) return Status(StatusCode::kUnavailable, "stopped");
      if (MonotonicNs() >= deadline_ns) return Status(StatusCode::kTimedOut, "");
      return NextLink{mirror_.Connect(), {}};
    }
    void Stop() override { stopped_ = true; }

   private:
    ResumableMirror& mirror_;
    std::atomic<bool> stopped_{false};
  };

  // What tessera-gateway does with a connection.
  void Serve(std::shared_ptr<Link> link) {
    Result<std::unique_ptr<Relay>> relay = Relay::AtServer(
        [this](uint64_t) -> Result<UniqueFd> { return std::move(server_socket_); }, std::move(link), &returning_, "", Soon());
    if (relay.ok()) server_why_ = Carry(**relay, 1);
  }
  Status Carry(Relay& relay, int side) {
    {
      MutexLock lock(mutex_);
      relays_[side] = &relay;
      begun_.notify_all();
    }
    Status why = relay.Run();
    MutexLock lock(mutex_);
    relays_[side] = nullptr;
    return why;
  }

  const Cuts cuts_;
  UniqueFd server_socket_;
  ReturningLinks returning_;
  std::atomic<int> links_{0};
  Status client_why_, server_why_;
  Mutex mutex_;
  ConditionVariable begun_;
  Relay* relays_[2] GUARDED_BY(mutex_) = {};
  std::vector<std::thread> server_threads_ GUARDED_BY(mutex_);
  std::thread client_thread_;
};

}  // namespace tessera
