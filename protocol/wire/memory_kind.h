// What GPU memory that a vGPU's sessions hold was taken for. The numbers are part of the protocol and of the report page
// (server/gate/report_page.h). Plain values; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera {

enum class MemoryKind : uint32_t {
  kAllocations = 0,  // cuMemAlloc, with what is kept for reuse; cuMemCreate
  kPools = 1,        // what memory pools have reserved
  kGraphs = 2,       // what the driver has reserved for allocation nodes
  kArrays = 3,       // with mipmapped ones
  kVariables = 4,    // of modules and libraries
  kKernels = 5,      // for running them: heap of malloc(), buffer of printf(), stacks and local memory
  kImports = 6,      // memory of other processes that is open here
  kContexts = 7,     // of all programs of a vGPU with a limit but the first. The broker counts them; of a session that began
                     // without room for its own, its worker
};
inline constexpr size_t kMemoryKinds = 8;

// Bytes, by kind.
using MemoryByKind = std::array<uint64_t, kMemoryKinds>;

// As users read them: names in JSON, values of a label.
inline constexpr std::array<std::string_view, kMemoryKinds> kMemoryKindNames = {"allocations", "pools",   "graphs",  "arrays",
                                                                                "variables",   "kernels", "imports", "contexts"};

}  // namespace tessera
