// A small process that lets sessions outlive the process that carries them. It starts this very program again as its child, which
// does all the work. The keeper holds what the child could not get again: the listening socket, and each session's socket, memory
// files and page (carriage.h). When the child ends without an order, the keeper starts another, which goes on with all of it.
//
//   Keeper keeper({.name = "tessera-agent", .arguments = ..., .listener_fd = listener.fd()});
//   RETURN_IF_ERROR(keeper.Prepare());
//   return keeper.Run();
//
// It waits for the child's end before it hands anything over, since a page has one writer. It looks at no byte of a network, a
// ring or a page. It connects to the server on the child's behalf: the server then sees a process that stays, and the child may
// be in a sandbox that forbids it. For the same reason it opens files for the child. One thread.
//
// SIGTERM and SIGINT end the child in order, and then the keeper. SIGHUP starts the child anew from the program's file, which may
// have been replaced. SIGHUP from a terminal that is gone counts as SIGTERM. When the keeper is killed, the child is killed too,
// and the sessions are over.
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

// Opens a file for reading if its path is one of `files`. kPermissionDenied for any other path, also for one that leads to the
// same file.
Result<UniqueFd> OpenOneOf(const std::vector<std::string>& files, const std::string& path);

class Keeper {
 public:
  // A child that lives this long after it said it is ready has gone on with all sessions. One that ends earlier counts as a
  // failed start. How long it took to become ready depends on the machine and does not matter.
  static constexpr uint64_t kLivedNs = 250'000'000;
  // After so many failed starts in a row the keeper gives up. The pauses between them are some 4 s in all.
  static constexpr int kEndsMax = 10;

  struct Options {
    std::string name;                                          // of the program: for the log and the child's argv[0]
    std::vector<std::string> arguments;                        // of the program; --carry-fd N is added for the child
    int listener_fd = -1;                                      // handed to each child; -1: the child makes its own
    int owner_fd = -1;                                         // as in RelayService::Options
    std::string server_path = {};                              // the socket to which KeeperLine::Dial() connects; empty: none
    DialFunction dial = {};                                    // instead makes connections, in a process of its own
    std::vector<std::string> files = {};                       // what KeeperLine::OpenFile() may open
    std::function<void(const std::string& where)> ready = {};  // called once, when connections may come; or empty
  };

  explicit Keeper(Options options) : options_(std::move(options)) {}
  // Blocks the signals that Run() waits for. Call it before the first thread.
  Status Prepare();
  // Returns the exit code of the program: when the child has ended in order, when it could not begin at all (it has said why), or
  // when the keeper gives up.
  int Run();

 private:
  Status Start();
  Status HandOver();
  // Serves the child until it has ended. Returns its status of waitpid(2).
  int Attend();
  void TakeSignals();
  // Takes all that the child has said.
  void TakeWords();
  void Take(ReceivedWord word);
  void Dial(int socket, uint64_t deadline_ns);
  void Open(const std::string& path, int socket);
  // Waits before the next start. False when this process is to end.
  bool Pause(int ends);

  const Options options_;
  std::string program_;  // path of its file, where a new release may have replaced it
  UniqueFd signals_;
  UniqueFd line_;
  bool line_open_ = false;
  bool owner_ended_ = false;
  ChildLogs logs_;
  pid_t child_ = -1;
  int wait_status_ = 0;
  bool child_ended_ = false;
  bool ready_ = false;      // some child was ready once
  uint64_t ready_ns_ = 0;   // when this child became ready; 0: not yet
  bool ending_ = false;     // SIGTERM or SIGINT has come
  bool asked_for_ = false;  // SIGHUP asked for the child's end
  bool told_shortage_ = false;
  std::string listened_;
  uint64_t next_number_ = 1;
  std::map<uint64_t, KeptSession> sessions_;
  Dialler dialler_{options_.dial};
};

}  // namespace tessera
