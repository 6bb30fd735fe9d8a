// The system calls that the filter of workers has an opinion on, by number. Every other number is unknown to it. Sources:
// asm/unistd.h of the kernel (numbers from 424 on are the same for all processors); traces of workers on the emulator and on
// GPUs (tests/gpu/worker_calls); what the C libraries of Debian 12 and Ubuntu 24.04 make of their functions.
#pragma once

#include <cstdint>
#include <span>

namespace tessera {

struct KnownCall {
  int number;
  const char* name;
};

// Reach nothing but the process itself and what it has open or may open by name.
std::span<const KnownCall> AllowedCalls();

// Allowed with some arguments (call_filter.cc).
std::span<const KnownCall> LookedAtCalls();

// Never of use to a worker, whatever their arguments are: they reach other processes, programs, names and rights of files, the
// machine.
std::span<const KnownCall> RefusedCalls();

// That open files by name: allowed, and looked at for the log.
std::span<const KnownCall> OpeningCalls();

// In the place of the number of the process that a filter is for, which only that process knows: no number of a process, nor
// of a call or flag.
inline constexpr uint32_t kOwnProcess = 0x7fffdead;

}  // namespace tessera
