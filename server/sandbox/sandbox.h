// Takes from the calling process what a worker never needs: so that a client that finds a mistake in the worker or in
// the driver gets nothing but its own session. README.md says what is left.
//
//   daemon:  for (const std::string& gap : InspectSandbox(options).gaps) LogWarning(...);     // once, at start
//   worker:  load the driver; EnterSandbox(options); initialise the driver; serve the client
//
// Once in a process, before its second thread: threads inherit it. There is no way back.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"
#include "server/sandbox/call_filter.h"
#include "server/sandbox/file_rules.h"

namespace tessera {

enum class SandboxMode {
  kOff,
  kAuto,     // what this machine can do
  kRequire,  // everything, or a failure
  kLog,      // nothing is refused; what would be is told in the log, at level `warning`
};

// "off", "auto", "require", "log"; false when `word` is none of these.
bool ParseSandboxMode(std::string_view word, SandboxMode* mode);

// Whom a worker that root started runs as.
struct WorkerUser {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  bool own = false;  // no other process has it: then there are no files for it to keep either
};

// The user with this name. kNotFound with a sentence.
Result<WorkerUser> FindWorkerUser(const std::string& name);

struct SandboxOptions {
  SandboxMode mode = SandboxMode::kAuto;
  // Nothing: this process keeps its user. Only root can have another.
  std::optional<WorkerUser> user;
  // Whether the process sees nothing of the machine's files but what it may open (private_root.h).
  bool private_root = true;
  // What it sees as /dev/shm in a private root: this directory; empty: the machine's. A user of its own has nothing to share: its
  // own memory.
  std::string shared_memory;
  CallFilter calls = CallFilter::kAllowList;
  // Further directories whose files may be read and executed: where the driver is.
  std::vector<std::string> library_directories;
  // Of a service, which is no worker (service_sandbox.h): all the files that it may open.
  std::optional<std::vector<FileRule>> files;
  // Patterns of glob(7): device files whose groups the process keeps beside its user's.
  std::vector<std::string> devices = {"/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm"};
  // The signal that the process gets at its parent's end, which a change of the user makes the kernel forget; 0: none.
  int parent_death_signal = 0;
  // Of whom sentences speak.
  std::string who = "workers";
  // The option by which the user does without a private root; empty: there is none.
  std::string root_option = "--worker-root machine";
};

struct SandboxReport {
  std::string protection;         // what is in force, in one line: "user nobody, a private root, Landlock 4, ..."
  std::vector<std::string> gaps;  // what is missing on this machine for the whole of it, as sentences
  bool private_root = false;      // can be had
  bool other_user = false;        // than the process that asks
};
// What EnterSandbox() does here: asks a process that it starts and that enters it. For one that has loaded no driver and has one
// thread.
SandboxReport InspectSandbox(const SandboxOptions& options);

// kAuto: succeeds as long as no system call fails that this machine has; root's process that may not become the user stays root,
// without capabilities. kRequire: kUnsupported when something is
// missing. After a failure the process must end: it may have lost part of its rights. `*report`, where there is one, tells what
// is in force in these two modes.
Status EnterSandbox(const SandboxOptions& options, SandboxReport* report = nullptr);

}  // namespace tessera
