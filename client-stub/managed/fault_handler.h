// The SIGSEGV handler behind managed memory. It is the library's only signal handler, and is installed only once a program has
// managed memory.
//
// A fault in a watched range goes to the service thread. Once that has made the page accessible the access is repeated. Every
// other fault, and every SIGSEGV that somebody sent, goes to the handler before ours, or ends the process as it would have. A
// program may later install a handler of its own, which then sees our faults. EnsureFaultHandler() puts ours in front again, and
// hands the program's handler what is not ours. No signal comes when only the kernel touches memory (read(2) into a page that the
// device has): such calls fail with EFAULT.
#pragma once

#include <cstdint>

#include "protocol/memory/range_allocator.h"

namespace tessera {

// Makes a page accessible. Runs on a service thread. True: the page may be touched now. `in_host_function`: a host function of
// the application touches it, and its stream waits for that function.
using FaultResolver = bool (*)(void* owner, uint64_t address, bool write, bool in_host_function);

// Sends faults in `range` to `resolver`. A range that overlaps an earlier one replaces it. Ranges are few, and stay. False: there
// is no room for another.
bool WatchFaults(const Range& range, void* owner, FaultResolver resolver);

// Makes sure that ours is the process' first handler. False: the system refuses. Any thread, but not in a signal handler.
bool EnsureFaultHandler();

// While it lives the calling thread runs a host function of the application: SIGSEGV is not blocked, and the thread's faults wait
// for no stream.
class HostFunctionFaults {
 public:
  HostFunctionFaults();
  ~HostFunctionFaults();
  HostFunctionFaults(const HostFunctionFaults&) = delete;
  HostFunctionFaults& operator=(const HostFunctionFaults&) = delete;
};

}  // namespace tessera
