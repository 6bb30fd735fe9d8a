// What programs that serve until a signal ends them have in common: tesserad, tessera-agent, tessera-gateway.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/base/log.h"

namespace tessera {

// How every such program ends; users read of it in each program's README and --help.
enum ServiceExitCode : int {
  kServiceOk = 0,            // after SIGTERM or SIGINT, or with the process it was started for
  kServiceInternal = 1,      // a system call failed that should not
  kServiceUsage = 2,         // the command line was not understood
  kServiceCannotListen = 4,  // the address could not be bound
};

// The longest --resume-grace: nobody's memory of the GPU is held longer for a program that does not come back.
inline constexpr uint32_t kResumeGraceSMax = 3600;

struct ServiceOptions {
  LogLevel log_level = LogLevel::kWarning;
  std::string log_word = "warning";  // the same as --log has it, for processes that this one starts
  uint32_t hello_timeout_s = 10;     // how long whoever has connected may say nothing

  // Of a program that `tessera` starts for one job (netaware/cli/companion.h); not for users.
  int owner_fd = -1;              // readable once the process that it is for has ended; so does the program
  bool remove_directory = false;  // at the end, remove the directory of the socket, which was made for this program

  // Of the process that carries the sessions of a service (protocol/keeper/keeper.h); not for users.
  int carry_fd = -1;

  uint64_t hello_timeout_ns() const { return hello_timeout_s * uint64_t{1'000'000'000}; }
};

// The PATH of unix:PATH; empty when `url` is something else.
std::string UnixPathOf(std::string_view url);

}  // namespace tessera
