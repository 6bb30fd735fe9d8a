// The small process that makes sessions outlive the one that carries them. It starts this very program again as its child,
// which does all the work, and holds what that one could not get again: the listening socket, each session's socket, memory
// files and page (carriage.h). When the child ends by anything but an order, another one is started and goes on with all of it.
//
//   Keeper keeper({.name = "tessera-agent", .arguments = ..., .listener_fd = listener.fd()});
//   RETURN_IF_ERROR(keeper.Prepare());
//   return keeper.Run();
//
// It waits for the child's end before it hands anything over: a page has one writer. It looks at no byte of a network, a ring
// or a page, and connects to the server on the child's behalf: so that the server sees a process that stays, or since the child
// may not; it opens for it the files that it may read no more. One thread.
//
// SIGTERM, SIGINT: the child ends in order, and so does this. SIGHUP: the child is started anew from the program's file, which
// may have been replaced (that of a terminal which is gone: as SIGTERM). When this process is killed the child is, too, and the
// sessions are over.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "protocol/base/child_logs.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "protocol/keeper/dialler.h"
#include "protocol/keeper/keeper_words.h"

namespace tessera {

// Opens a file that is one of `files`, to be read; kPermissionDenied for any other path, also one that leads to the same file.
Result<UniqueFd> OpenOneOf(const std::vector<std::string>& files, const std::string& path);

class Keeper {
 public:
  // A child that has lived so long since it said that it is ready has gone on with all of it; one that ends before counts. How
  // long it took to begin is the machine's affair.
  static constexpr uint64_t kLivedNs = 250'000'000;
  // So many of them in a row, and there is no sense in another one. The pauses between them are some 4 s.
  static constexpr int kEndsMax = 10;

  struct Options {
    std::string name;                                          // of the program, for the log and the child's argv[0]
    std::vector<std::string> arguments;                        // the program's own; --carry-fd N is added for the child
    int listener_fd = -1;                                      // handed to each child; -1: it makes one of its own
    int owner_fd = -1;                                         // as RelayService::Options
    std::string server_path = {};                              // the socket to which KeeperLine::Dial() connects; empty: none
    DialFunction dial = {};                                    // makes connections in its place, in a process of its own
    std::vector<std::string> files = {};                       // those that KeeperLine::OpenFile() opens
    std::function<void(const std::string& where)> ready = {};  // when connections may come, once; empty: not to be told
  };

  explicit Keeper(Options options) : options_(std::move(options)) {}
  // Blocks the signals that Run() waits for. Before the first thread.
  Status Prepare();
  // Returns the exit code of the program when the child has ended in order, could not begin at all (it has said why), or when
  // there is no sense in another.
  int Run();

 private:
  Status Start();
  Status HandOver();
  // Until the child has ended; its status of waitpid(2).
  int Attend();
  void TakeSignals();
  // What the child has said, all of it.
  void TakeWords();
  void Take(ReceivedWord word);
  void Dial(int socket, uint64_t deadline_ns);
  void Open(const std::string& path, int socket);
  // Waits before the next start; false when this process is to end.
  bool Pause(int ends);

  const Options options_;
  std::string program_;  // its file, also when that is replaced
  UniqueFd signals_;
  UniqueFd line_;
  bool line_open_ = false;
  bool owner_ended_ = false;
  ChildLogs logs_;
  pid_t child_ = -1;
  int wait_status_ = 0;
  bool child_ended_ = false;
  bool ready_ = false;      // a child was, once
  uint64_t ready_ns_ = 0;   // since when this one is; 0: it is not
  bool ending_ = false;     // SIGTERM or SIGINT has come
  bool asked_for_ = false;  // the child's end, by SIGHUP
  bool told_shortage_ = false;
  std::string listened_;
  uint64_t next_number_ = 1;
  std::map<uint64_t, KeptSession> sessions_;
  Dialler dialler_{options_.dial};
};

}  // namespace tessera
