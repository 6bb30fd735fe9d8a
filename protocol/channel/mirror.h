// A link without a network: joins a client's channel and a server's channel that share no pages, in one process. What a
// link between two machines does, so that the whole product can be tested over pages that are not shared.
//
//   Mirror mirror = *Mirror::Start(client_socket, server_socket);   // then Attach / Create at the other ends
//
// Towards the client it plays the server, towards the server the client: it passes on the handshake (telling both ends that
// they are mirrored), offers of segments, and good-byes, makes rings and segments of its own for the client's side, and
// moves ring records and published ranges. A range is applied before the records that follow it become visible.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
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
  // One direction: what is published by `from` is applied in `to`.
  struct Direction {
    Channel* from = nullptr;
    Channel* to = nullptr;
    Mutex mutex;  // held while ranges are applied
    uint64_t last_number GUARDED_BY(mutex) = 0;
    std::atomic<uint64_t> bytes{0};
  };

  Mirror(UniqueFd client_socket, UniqueFd server_socket);
  void Run();
  Status Handshake();
  void MoveRecords(Direction& direction, RingConsumer& in, RingProducer& out);
  void MoveTransfers(Direction& direction);
  Status ApplyTransfers(Direction& direction) EXCLUDES(direction.mutex);
  Status PassOn(Channel& from, Channel& to, SocketMessage message);
  void WatchSockets();
  void End(const Status& reason);

  UniqueFd client_socket_;  // until the handshake
  UniqueFd server_socket_;
  std::unique_ptr<Channel> client_;  // its peer is the client: we are its server side
  std::unique_ptr<Channel> server_;  // its peer is the server
  Direction to_server_;
  Direction to_client_;
  std::atomic<bool> ended_{false};
  std::thread handshake_thread_;
};

}  // namespace tessera
