// The system calls that a filter has an opinion on, by number. Source: asm/unistd.h of the kernel; numbers from 424 on are the
// same for all processors.
#pragma once

#include <span>

namespace tessera {

struct KnownCall {
  int number;
  const char* name;
};

// Never of use to a worker, whatever their arguments are: they reach other processes, programs, names and rights of files, the
// machine.
std::span<const KnownCall> RefusedCalls();

// That open files by name: allowed, and looked at for the log.
std::span<const KnownCall> OpeningCalls();

}  // namespace tessera
