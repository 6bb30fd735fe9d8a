// The socket that clients connect to: a Unix SEQPACKET socket with a path, for the daemon's own user alone.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// Takes "unix:/run/user/1000/tessera.sock" apart. kInvalidArgument for another scheme, an empty or a too long path
// (sun_path of unix(7): 107 bytes).
Result<std::string> ParseListenAddress(std::string_view address);

class Listener {
 public:
  // Connections the kernel holds for us while all hands are busy.
  static constexpr int kBacklog = 64;

  // Binds `path`, mode 0600. A socket file that nobody listens on any more is removed first; one that somebody does is
  // kUnavailable; a file that is no socket is kInvalidArgument and stays.
  static Result<Listener> Bind(const std::string& path);

  Listener(Listener&&) = default;
  Listener& operator=(Listener&&) = delete;
  ~Listener();  // Close()

  int fd() const { return socket_.get(); }
  const std::string& path() const { return path_; }

  // The next connection, blocking mode, CLOEXEC; an invalid descriptor when none waits. A peer with another user id than
  // ours (and not root) is logged and closed here.
  UniqueFd Accept(pid_t* peer_pid);

  // Stops listening and removes the socket file if it is still ours. Idempotent.
  void Close();

 private:
  Listener(UniqueFd socket, std::string path, dev_t device, ino_t inode)
      : socket_(std::move(socket)), path_(std::move(path)), device_(device), inode_(inode) {}

  UniqueFd socket_;
  std::string path_;
  dev_t device_;
  ino_t inode_;
};

}  // namespace tessera
