// A tesserad started by a test, with its two output streams caught.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "protocol/base/unique_fd.h"

namespace tessera {

class DaemonProcess {
 public:
  // Runs `arguments` (without argv[0]).
  explicit DaemonProcess(const std::vector<std::string>& arguments);
  ~DaemonProcess();  // kills it when it still runs

  pid_t pid() const { return pid_; }
  // The first line on stdout, without its end; "" when stdout was closed or nothing came in time.
  std::string ReadyLine(int timeout_ms = 30'000);
  // Whether `text` appears on stderr in time.
  bool WaitForLog(const std::string& text, int timeout_ms = 10'000);
  const std::string& log() const { return err_text_; }
  const std::string& output() const { return out_text_; }
  void Signal(int number) { kill(pid_, number); }
  // The wait status, once it ended; -1 when it did not in time. Reads the rest of both streams.
  int Wait(int timeout_ms = 20'000);
  // Process ids of its children but for the broker.
  std::vector<pid_t> Children() const;

 private:
  bool Pump(int timeout_ms);  // reads what there is; false when both streams have ended

  pid_t pid_ = -1;
  int wait_status_ = -1;
  UniqueFd out_;
  UniqueFd err_;
  std::string out_text_;
  std::string err_text_;
};

// A connected SEQPACKET socket; invalid when nobody listens.
UniqueFd ConnectTo(const std::string& path);
// The same, with a hello sent: the daemon starts a worker for it. Invalid also when the hello could not be sent.
UniqueFd SayHelloTo(const std::string& path, const std::vector<std::string>& environment = {});

}  // namespace tessera
