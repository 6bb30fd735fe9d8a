// A link without a network: joins a client's channel and a server's channel that share no pages, in one process. What a
// link between two machines does, so that the whole product can be tested over pages that are not shared.
//
//   auto mirror = Mirror::Start(client_socket, server_socket);   // then Attach / Create at the other ends
//
// Towards the client it plays the server, towards the server the client: it passes on the handshake (telling both ends that
// they are mirrored), offers of segments, and good-byes, makes rings and segments of its own for the client's side, and
// moves ring records and published ranges. A range is applied before the records that follow it become visible.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/channel/channel.h"

namespace tessera {

class Mirror {
 public:
  // Starts the mirror's threads and returns at once; the handshake runs on them. `client_socket` is connected to a client
  // that will Attach, `server_socket` to a server that will ReceiveHello and Create. What fails ends both connections.
  static std::unique_ptr<Mirror> Start(UniqueFd client_socket, UniqueFd server_socket);
  // Ends both connections and all threads.
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  // Bytes of ranges moved to the server and to the client so far.
  uint64_t bytes_to_server() const { return to_server_.bytes.load(std::memory_order_relaxed); }
  uint64_t bytes_to_client() const { return to_client_.bytes.load(std::memory_order_relaxed); }

 private:
  // One direction: what the peer of `from` published is applied at `to`.
  struct Direction {
    Channel* from = nullptr;
    Channel* to = nullptr;
    std::atomic<int> movers{0};  // threads that still move records; the last one passes on the end
    uint64_t last_number = 0;    // of the ranges applied; under apply_mutex_
    std::atomic<uint64_t> bytes{0};
  };

  Mirror() = default;
  void Run(UniqueFd client_socket, UniqueFd server_socket);
  Status Handshake(UniqueFd client_socket, UniqueFd server_socket);
  void StartMovers();
  // A thread each: records of one ring, ranges of one direction, messages of both sockets.
  void MoveRecords(Direction& direction, RingConsumer& in, RingProducer& out);
  void MoveTransfers(Direction& direction);
  void WatchSockets();

  Status MoveBatch(Direction& direction, RingConsumer& in, RingProducer& out);
  Status ApplyTransfers(Direction& direction) EXCLUDES(apply_mutex_);
  Status ApplyTransfer(Direction& direction, const TransferRecord& transfer) REQUIRES(apply_mutex_);
  Status PassOn(Channel& from, Channel& to, const SocketMessage& message);
  Status PassOnOffer(Channel& from, Channel& to, const SegmentOffer& offer, const SocketMessage& message);
  Status PassOnClose(Channel& from, Channel& to, uint32_t id);
  bool IsClosed(uint32_t id) EXCLUDES(closed_mutex_);
  void HangUp();

  std::unique_ptr<Channel> client_;  // its peer is the client: here we are the server's side
  std::unique_ptr<Channel> server_;  // its peer is the server
  // Held while ranges are applied, one for both directions: a range that comes back as an answer is ordered after the one
  // that went, which a race detector cannot see through the memory of two processes.
  Mutex apply_mutex_;
  Direction to_server_;
  Direction to_client_;
  Mutex closed_mutex_;
  std::set<uint32_t> closed_once_ GUARDED_BY(closed_mutex_);   // segments that at least one of the two sides has closed
  std::set<uint32_t> closed_twice_ GUARDED_BY(closed_mutex_);  // and those that both have
  std::atomic<bool> stopping_{false};
  UniqueFd ends_[2];  // second descriptors of both sockets, to end what may wait on them
  std::thread run_thread_;
  std::vector<std::thread> threads_;  // started and joined by run_thread_
};

}  // namespace tessera
