// Unix SEQPACKET sockets: how a client finds a server, tells it who it is, and passes descriptors. Any thread; a socket is
// used by one thread per direction at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// Descriptors in one message (the kernel allows 253; a welcome needs two).
inline constexpr size_t kSocketFdsMax = 8;

// Who may connect to a socket, as the permissions of a file. Connecting takes the right to write.
struct SocketAccess {
  mode_t mode = 0600;
  std::optional<gid_t> group;  // of the file; nullopt: the usual one of a new file
};

// Messages, which arrive whole, or a stream of bytes, for foreign protocols.
enum class SocketKind { kMessages, kBytes };

// A socket at a path, by default for the user of this process alone.
class UnixListener {
 public:
  // Connections that the kernel keeps until we accept them.
  static constexpr int kBacklog = 64;

  // Removes a socket file that nobody listens on any more. kUnavailable when somebody does, kInvalidArgument when the path
  // is too long (unix(7): 107 bytes) or names something that is no socket (which stays), kPermissionDenied when the file cannot
  // get that group. Nobody can connect before all of `access` is in force.
  static Result<UnixListener> Bind(const std::string& path, const SocketAccess& access = {},
                                   SocketKind kind = SocketKind::kMessages);
  UnixListener(UnixListener&&) = default;
  UnixListener& operator=(UnixListener&&) = delete;
  ~UnixListener();  // Close()

  int fd() const { return socket_.get(); }  // for poll(2); non-blocking
  const std::string& path() const { return path_; }
  // The next connection, checked by CheckPeerUser() unless the file's mode lets others in. kTimedOut when none waits.
  Result<UniqueFd> Accept();
  // The same, always checked, for a listening socket that somebody else keeps.
  static Result<UniqueFd> Accept(int listener);
  // Stops listening and removes the file if it is still ours. Idempotent.
  void Close();
  // Removes the file alone, also in a process that this one has forked.
  void RemoveFile() const;

 private:
  UnixListener(UniqueFd socket, std::string path, dev_t device, ino_t inode, bool own_user)
      : socket_(std::move(socket)), path_(std::move(path)), device_(device), inode_(inode), own_user_(own_user) {}
  static Result<UniqueFd> Accept(int listener, bool own_user);

  UniqueFd socket_;
  std::string path_;
  dev_t device_;
  ino_t inode_;
  bool own_user_;  // only the user of this process, and root
};

// Connects to a listener. kNotFound (no such file), kPermissionDenied, kUnavailable (nobody listens), kInvalidArgument
// (path too long, another program's socket), kTimedOut (not taken within kConnectSecondsMax): the sentence says what to
// do next.
inline constexpr int kConnectSecondsMax = 10;
Result<UniqueFd> ConnectUnix(const std::string& path);
// As above without waiting: kTimedOut when the listener has no room just now.
Result<UniqueFd> TryConnectUnix(const std::string& path);

// Two sockets that are connected with each other, for processes of one family.
Result<std::pair<UniqueFd, UniqueFd>> MakeSocketPair();

struct PeerCredentials {
  pid_t pid;
  uid_t uid;
  gid_t gid;
};
// Who connected, or listened, when the connection was made (SO_PEERCRED).
Result<PeerCredentials> PeerOf(int socket);
// Ok when the peer runs as our effective user or as root; else kPermissionDenied.
Status CheckPeerUser(int socket);
// Why a server hung up before it said anything: `status`, or kPermissionDenied when the server's user is one whose servers refuse
// our user.
Status ExplainHangUp(int socket, const Status& status);

// Sends one message with descriptors (kept by the caller). kUnavailable when the peer is gone, kTimedOut at `deadline_ns`
// (MonotonicNs; kNoDeadline of waiting.h: none). Never raises SIGPIPE.
Status SendMessage(int socket, std::span<const std::byte> message, std::span<const int> fds, uint64_t deadline_ns);

// Copies the first bytes of the next message, at most start.size(), and leaves it there. Does not block. kTimedOut: none waits.
// kUnavailable: the peer closed the connection.
Result<size_t> PeekMessage(int socket, std::span<std::byte> start);

struct SocketMessage {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;  // CLOEXEC
};
// The next message. kUnavailable when the peer closed the connection, kTimedOut at `deadline_ns` (0: do not wait),
// kProtocolViolation for one of more than `bytes_max` bytes or with more than kSocketFdsMax descriptors. kLeave: the message
// stays until DropMessage(), and its descriptors are duplicates (unix(7): MSG_PEEK).
enum class FromSocket { kTake, kLeave };
Result<SocketMessage> ReceiveMessage(int socket, size_t bytes_max, uint64_t deadline_ns, FromSocket how = FromSocket::kTake);
// Takes away the message that ReceiveMessage() has left. Does not block.
void DropMessage(int socket);

// Whether the other end is closed, whatever still waits to be read. Does not block.
bool SocketHungUp(int socket);

}  // namespace tessera
