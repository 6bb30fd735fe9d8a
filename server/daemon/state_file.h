// What the broker has given to keep: the vGPUs of the control API, and the requests that it has answered. They are kept in memory
// for the next broker, and in a file for the next server (--state). Only this daemon writes it, as a whole: a new file takes the
// place of the old one, so that none is half written, and a change is there with its answer or not at all. vGPUs are text;
// answers, where there are some, are bytes behind it. The first line has how long both are and a checksum: a file that was cut
// off or damaged is refused, and stays as it is. So is one of a later release in another form; one of a release that kept no
// answers has none.
//
// One thread. Writing waits for the disk: after a change at once, but once in kPauseNs at most, however often there are changes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/base/status.h"
#include "server/gate/answered_requests.h"
#include "server/gate/broker_line.h"

namespace tessera {

class StateFile {
 public:
  static constexpr uint64_t kPauseNs = 1'000'000'000;
  static constexpr uint64_t kFailedPauseNs = 10'000'000'000;  // after a disk that was full

  // With what stands in the file; nothing where there is none yet. The sentences name the file: kInvalidArgument: it is none of
  // this form, or damaged; kPermissionDenied and others: it cannot be read.
  static Result<StateFile> Open(const std::string& path);
  // Without a file: all ends with this server.
  static StateFile InMemory() { return StateFile(""); }
  // Makes its directory, as the first write would. An error where that cannot be, or files in it cannot.
  Status Prepare() const;

  const std::optional<KeptMessage>& kept() const { return kept_; }
  const AnsweredRequests& answered() const { return answered_; }
  void Keep(KeptMessage kept);
  void Keep(AnsweredRequest answered);
  // Writes what is to be written, when it is time. A failure is a warning in the log, once until it works again.
  void Tend(uint64_t now_ns);
  // Writes it now.
  void Flush();
  // When Tend() has something to do, or kNoDeadline.
  uint64_t next_ns() const;

 private:
  explicit StateFile(std::string path) : path_(std::move(path)) {}
  Status Write() const;

  std::string path_;  // empty: there is no file
  std::optional<KeptMessage> kept_;
  AnsweredRequests answered_;
  bool is_written_ = true;
  bool fails_ = false;
  uint64_t next_ns_ = 0;
};

// What follows the file's path in that of the directory of usage records.
inline constexpr const char* kUsageEnd = ".usage";

// Where the state of the server at this socket is when nobody says: a name made of the socket's path, in the user's directory for
// such. Empty: there is no place.
std::string DefaultStatePath(const std::string& socket_path);

}  // namespace tessera
