// What is machine code of a program that is to be started, and whether Tessera's library gets into it. Looks at files, runs
// nothing.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace tessera {

struct MachineCode {
  std::string file;
  std::string head;  // its first bytes; empty: it has rights of another user or group, and may not be read
  mode_t mode = 0;   // of the file, as its user and group
  uid_t user = 0;
  gid_t group = 0;
  bool rights = false;  // it has capabilities of its own (capabilities(7))

  // What runs when `file` is started: itself, or what the interpreters that "#!" leads to end at; of a shim, a shell script with
  // a single `exec PATH`, what is at that path. Nothing: it ends at a file that is neither, or cannot be read.
  static std::optional<MachineCode> Of(const std::string& file);
};

struct Unreached {
  std::string text;    // why
  std::string advice;  // what to do
};
// Why the loader gives this program no library from LD_LIBRARY_PATH; nothing: it does. For this machine, with which `tessera run`
// starts it as this process' effective user.
std::optional<Unreached> WhyUnreached(const MachineCode& code);

}  // namespace tessera
