// The SIGSEGV handler behind managed memory: the one signal handler this library installs, and only once a program has
// managed memory.
//
// A fault in a range that was entered here goes to the service thread; when that has made the page accessible the access is
// made again. Every other fault, and every SIGSEGV that somebody sent, goes to whoever handled the signal before, or ends
// the process as it would have.
// A program that installs a handler of its own later takes the signal away; EnsureInstalled() puts ours in front again and
// hands it what is not ours. Between the two its handler sees our faults.
// Memory that only the kernel touches (read(2) into a page that the device has) faults nobody: such calls fail with EFAULT.
#pragma once

#include <cstdint>

#include "protocol/memory/range_allocator.h"

namespace tessera {

// Runs on a service thread. True: the page may be touched now. `in_host_function`: by a host function of the
// application's, for which its stream waits.
using FaultResolver = bool (*)(void* owner, uint64_t address, bool write, bool in_host_function);

// Faults in `range` go to `resolver`; a range that overlaps an earlier one takes its place. Ranges are few and stay. False
// when there is no room for another.
bool WatchFaults(const Range& range, void* owner, FaultResolver resolver);

// Makes sure that the handler is the process' first. False when the system refuses. Any thread, no signal handler.
bool EnsureFaultHandler();

// While it lives the calling thread runs a host function of the application: SIGSEGV reaches it, and its faults wait for no
// stream.
class HostFunctionFaults {
 public:
  HostFunctionFaults();
  ~HostFunctionFaults();
  HostFunctionFaults(const HostFunctionFaults&) = delete;
  HostFunctionFaults& operator=(const HostFunctionFaults&) = delete;
};

}  // namespace tessera
