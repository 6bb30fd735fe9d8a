// A server of its own for one `tessera run`: started on a socket in a private directory, gone when the job ends.
#pragma once

#include <sys/types.h>

#include <string>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

class PrivateServer {
 public:
  // How long the server may take until it is ready: loading a driver and finding its devices takes seconds at worst.
  static constexpr int kReadyTimeoutMs = 60'000;

  // Starts `daemon` with the driver that --driver of tesserad takes and waits until it is ready. kNotFound: no device;
  // kTimedOut, kInternal: it did not come up. Its own stderr says why.
  static Result<PrivateServer> Start(const std::string& daemon, const std::string& driver);

  PrivateServer(PrivateServer&& other) noexcept;
  PrivateServer& operator=(PrivateServer&&) = delete;
  // Ends the server and removes its directory.
  ~PrivateServer();

  const std::string& url() const { return url_; }
  // What the server said when it was ready, without its name: "devices: NVIDIA H200 ×1, driver 13.0".
  const std::string& description() const { return description_; }

 private:
  PrivateServer() = default;

  pid_t pid_ = -1;
  std::string directory_;
  std::string url_;
  std::string description_;
};

}  // namespace tessera
