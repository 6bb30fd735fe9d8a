// Ends the process of a session whose client is gone, also while a call is inside the driver and nobody else looks after the
// client: a compilation may take minutes, and holds the GPU's memory meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

class Channel;  // protocol/channel

class ClientWatch {
 public:
  // From the client's end until this side has to have ended by itself. A client on another host whose link is lost is none that
  // has ended: its gateway keeps the socket for the grace time.
  static constexpr uint64_t kPatienceNs = 1'500'000'000;

  // `end` is called, with the reason, on a thread of this object's own, and does not return. `channel` outlives it.
  ClientWatch(Channel& channel, std::function<void(const Status& why)> end);
  // The session has ended by itself.
  ~ClientWatch();
  ClientWatch(const ClientWatch&) = delete;
  ClientWatch& operator=(const ClientWatch&) = delete;

 private:
  void Run();

  Channel& channel_;
  const std::function<void(const Status& why)> end_;
  UniqueFd stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace tessera
