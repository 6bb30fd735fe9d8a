// Finds the machine code of a program, and checks that the loader would give it Tessera's library. Reads files, runs nothing.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace tessera {

struct MachineCode {
  std::string file;
  std::string head;  // its first bytes; empty: the file has rights of another user or group, and may not be read
  mode_t mode = 0;   // the file's mode; its user and group follow
  uid_t user = 0;
  gid_t group = 0;
  bool rights = false;  // it has capabilities of its own (capabilities(7))

  // The machine code that runs when `file` is started: the file itself, or the interpreter at the end of the "#!" lines. For a
  // shim, a shell script with a single `exec PATH`, it is the program at that path. nullopt: the last file is neither a script
  // nor machine code, or cannot be read.
  static std::optional<MachineCode> Of(const std::string& file);
};

struct Unreached {
  std::string text;    // the reason
  std::string advice;  // the advice
};
// The reason why the loader gives this program no library from LD_LIBRARY_PATH; nullopt: it does. Assumes that `tessera run`
// starts it on this machine, as this process' effective user.
std::optional<Unreached> WhyUnreached(const MachineCode& code);

}  // namespace tessera
