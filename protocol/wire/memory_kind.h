// The purposes for which a vGPU's sessions hold GPU memory. The numbers are part of the protocol and of the report page
// (server/gate/report_page.h). Plain values; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera {

enum class MemoryKind : uint32_t {
  kAllocations = 0,  // cuMemAlloc, including memory kept for reuse; cuMemCreate
  kPools = 1,        // reserved by memory pools
  kGraphs = 2,       // reserved by the driver for allocation nodes
  kArrays = 3,       // including mipmapped ones
  kVariables = 4,    // of modules and libraries
  kKernels = 5,      // to run kernels: heap of malloc(), buffer of printf(), stacks and local memory
  kImports = 6,      // memory of other processes that is open in this one
  kContexts = 7,     // contexts of all programs of a vGPU with a limit except the first. The broker counts them; if a session
                     // began without room for its own, its worker counts that one
};
inline constexpr size_t kMemoryKinds = 8;

// Bytes of each kind.
using MemoryByKind = std::array<uint64_t, kMemoryKinds>;

// The names that users read, in JSON and as values of a label.
inline constexpr std::array<std::string_view, kMemoryKinds> kMemoryKindNames = {"allocations", "pools",   "graphs",  "arrays",
                                                                                "variables",   "kernels", "imports", "contexts"};

}  // namespace tessera
