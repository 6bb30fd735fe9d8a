// A channel whose two ends share no pages, in one process: two relays and a link between them, where later two hosts and a
// network are. Everything that holds over it holds over any link.
//
//   auto mirror = Mirror::Start(client_socket, server_socket);   // then Attach / Create at the other ends
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "protocol/base/unique_fd.h"
#include "protocol/link/impaired/impaired_link.h"
#include "protocol/link/in_process_link.h"
#include "protocol/relay/relay.h"

namespace tessera {

class Mirror {
 public:
  // The client's end, the server's.
  using Links = std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>>;

  // Returns at once; handshake and session run on threads of the mirror's own. `client_socket` is connected to a client that
  // will Attach, `server_socket` to a server that will ReceiveHello and Create. What fails ends both connections. With an
  // impairment, both directions are impaired; `links` are two connected ends; `segment_bytes_max`, `budget`: at the server's end.
  static std::unique_ptr<Mirror> Start(UniqueFd client_socket, UniqueFd server_socket,
                                       const std::optional<Impairment>& impairment = {}, Links links = MakeInProcessLink(),
                                       uint64_t segment_bytes_max = UINT64_MAX, SegmentBudget* budget = nullptr);
  // Ends both connections and all threads.
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  bool over() const { return running_.load() == 0; }
  // Bytes of segments that arrived so far.
  uint64_t bytes_to_server() const { return to_server_.load(); }
  uint64_t bytes_to_client() const { return to_client_.load(); }

 private:
  Mirror(uint64_t segment_bytes_max, SegmentBudget* budget) : segment_bytes_max_(segment_bytes_max), budget_(budget) {}
  void Run(bool client, UniqueFd socket, Link& link);

  const uint64_t segment_bytes_max_;
  SegmentBudget* const budget_;
  std::unique_ptr<Link> links_[2];
  std::unique_ptr<Link> impaired_[2];
  UniqueFd ends_[2];  // second descriptors of both sockets, to end what may wait on them
  std::atomic<int> running_{2};
  std::atomic<uint64_t> to_server_{0};
  std::atomic<uint64_t> to_client_{0};
  std::thread threads_[2];
};

}  // namespace tessera
