// What a service tells the one that has started it, as systemd wants it of Type=notify: datagrams to $NOTIFY_SOCKET. One thread.
// Where nobody wants to hear, nothing happens. What cannot be sent is lost: a service is none the worse for that.
//
//   ServiceNotice notice = ServiceNotice::Take();       // before the first child, which would speak for the service
//   notice.Ready("2 devices");
//   poll(..., until notice.next_ns());
//   notice.Beat(MonotonicNs());                         // in the loop that is to be alive
#pragma once

#include <cstdint>
#include <string>

#include "protocol/base/unique_fd.h"

namespace tessera {

class ServiceNotice {
 public:
  ServiceNotice() = default;
  // Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment. An address that is none is as no address.
  static ServiceNotice Take();

  // Somebody wants to hear.
  bool wanted() const { return socket_.valid(); }
  // It can be used, `status` is what is shown of it, one line.
  void Ready(const std::string& status);
  void Status(const std::string& status);
  // It reads its files again, until Reloaded(). What is shown of it stays.
  void Reloading();
  void Reloaded();
  // It takes nobody any more.
  void Stopping(const std::string& status);

  // Says that the service lives, if it is time to: twice in the watchdog's time.
  void Beat(uint64_t now_ns);
  bool has_watchdog() const { return period_ns_ > 0; }
  // When it is; UINT64_MAX without a watchdog.
  uint64_t next_ns() const { return next_ns_; }

 private:
  void Send(const std::string& text) const;
  UniqueFd socket_;  // connected
  uint64_t period_ns_ = 0;
  uint64_t next_ns_ = UINT64_MAX;
};

}  // namespace tessera
