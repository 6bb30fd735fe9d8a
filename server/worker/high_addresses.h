// Keeps what the driver maps by itself away from where programs have their mappings.
//
// Variables of modules and other memory that only the driver can place lie where the kernel puts mappings without an address:
// from the top of the address space (less a random TiB) downwards, natively in the program's own process. Here that process is
// another one with mappings of its own at those places, and an address of the GPU's memory must not be one of them: the client
// refuses such memory (client-stub/process/address_windows.h), and nothing can be done about it then. It was seen on an H200: a
// variable of cuBLAS met a program with many threads. So a worker takes that region away from the kernel before it loads the
// driver, and the driver's mappings come to lie where no program has any.
//
// Source: the Linux kernel's placement of mappings (mmap_base, top-down), which is the same since 2.6.
#pragma once

#include <vector>

#include "protocol/memory/range_allocator.h"

namespace tessera {

// Mappings without an address lie in this range from HighAddresses::Occupy on, below a random place of it: several servers of one
// program do not choose alike. Neither the windows of window_table.h nor what sanitizers keep for themselves is in it.
inline constexpr Range kLowMappings{0x6c0000000000, 0x40000000000};

// What a worker has taken of them. One thread; one object per process, which may go while the addresses stay taken.
class HighAddresses {
 public:
  // Maps all that is free above, without access and without memory. For the life of the process; before the driver is loaded, in
  // a process that has one thread. Where it fails (a limit of address space, kernels that place mappings elsewhere) nothing
  // changes. Sanitized builds leave it be: they have their own things there. The second time it does nothing.
  void Occupy();
  // Gives back what is taken of this range.
  void Vacate(const Range& range);

 private:
  std::vector<Range> occupied_;
};

}  // namespace tessera
