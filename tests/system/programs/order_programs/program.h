// A program of copies, sets, kernels, host functions and waits over few buffers and streams, and of a second process, as data.
//
// generator.h makes programs, order.h tells whether they are free of races by CUDA's documented rules, model.h says what they
// must leave in memory, runner.h runs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace order_programs {

// kPool: device memory that cuMemAllocAsync gave. kShared: device memory that the second process has open, too.
enum class Place { kDevice, kPool, kShared, kManaged, kPinned, kRegistered, kPageable };

struct Buffer {
  const char* name;
  Place place;
};
inline constexpr Buffer kBuffers[] = {
    {"device0", Place::kDevice},     {"device1", Place::kDevice},         {"device2", Place::kPool},
    {"pinned0", Place::kPinned},     {"pinned1", Place::kPinned},         {"registered0", Place::kRegistered},
    {"pageable0", Place::kPageable}, {"registered1", Place::kRegistered}, {"pageable1", Place::kPageable},
    {"managed0", Place::kManaged},   {"managed1", Place::kManaged},       {"shared0", Place::kShared}};
inline constexpr int kBufferCount = static_cast<int>(std::size(kBuffers));
// The others first: programs have of them always, and of managed and shared ones at times.
inline constexpr int kManaged = 9, kShared = 11;
static_assert(kBuffers[kManaged].place == Place::kManaged && kBuffers[kShared].place == Place::kShared);
inline bool IsHost(int buffer) { return kBuffers[buffer].place >= Place::kPinned; }
inline bool IsManaged(int buffer) { return kBuffers[buffer].place == Place::kManaged; }

enum class StreamKind { kLegacy, kPerThread, kBlocking, kNonBlocking };

struct Stream {
  const char* name;
  StreamKind kind;
};
inline constexpr Stream kStreams[] = {{"legacy", StreamKind::kLegacy},           {"per_thread", StreamKind::kPerThread},
                                      {"blocking0", StreamKind::kBlocking},      {"blocking1", StreamKind::kBlocking},
                                      {"unblocking0", StreamKind::kNonBlocking}, {"unblocking1", StreamKind::kNonBlocking}};
inline constexpr int kStreamCount = static_cast<int>(std::size(kStreams));
inline constexpr int kLegacy = 0, kPerThread = 1;
inline constexpr int kEventCount = 4;
inline constexpr int kFlagCount = kEventCount;  // words of device memory, 0 at first, whose values rise

// Rows and slices of bytes of a buffer; how wide, how many rows and slices, the operation says.
struct Region {
  int buffer = -1;  // -1: none
  size_t offset = 0;
  size_t pitch = 0;  // from row to row
  size_t slice = 0;  // from slice to slice
};

enum class Kind {
  kCopy,
  kSet,
  kKernel,             // every byte of `to`, of which rows are one byte wide: 3 * itself + that of `from` + value + row number
  kHostFunctionWrite,  // fills `to`
  kHostFunctionRead,   // compares `from` with what the model says
  kHostWrite,          // likewise, by the program's thread
  kHostRead,
  kRecord,
  kWaitEvent,
  kSyncStream,
  kSyncEvent,
  kSyncContext,
  kPollStream,  // asks until it is idle
  kPollEvent,
  kRaise,       // writes `value` to a flag: more than was written to it before
  kWaitRaised,  // has the stream wait until the flag is `value` or more
  kPrefetch,    // of `from`, which is managed: to the device, or to the host if `value` is odd
  kOther,       // the second process does `nodes` in the shared buffer, between two points where all work is over
  kGraph,       // `nodes`, captured one after the other, launched in `stream`
  kFork,        // a second thread begins
  kJoin         // it has ended
};

enum class Call {
  kTyped,           // cuMemcpyHtoD, DtoH, DtoD; cuMemcpy between host memories; cuMemsetD
  kUnified,         // cuMemcpy
  kDevicePointers,  // cuMemcpyDtoD, with the device pointers of host memory
  kRows,            // cuMemcpy2DUnaligned, cuMemcpy2DAsync; cuMemsetD2D
  kSlices,          // cuMemcpy3D
  kWriteValue       // a set by cuStreamWriteValue32
};

struct Operation {
  Kind kind = Kind::kSyncContext;
  int thread = 0;
  int stream = kLegacy;  // of the asynchronous forms and of waits
  int event = 0;         // or flag
  Call call = Call::kTyped;
  bool async = false;
  Region to, from;
  size_t width = 0, rows = 1, slices = 1;
  unsigned element_bytes = 1;  // of a set
  uint32_t value = 0;
  std::vector<Operation> nodes;
};

struct Program {
  size_t buffer_bytes = 0;
  uint64_t content = 0;  // of what the buffers hold at first
  std::vector<Operation> operations;
};

// Whether a copy of Call::kTyped is made by cuMemcpyBatchAsync, which orders it as the asynchronous form does. There is none for
// the legacy stream and for graphs, and what it does with pageable memory is another matter.
bool InBatch(const Operation& operation);
// From the first byte of the region to behind its last.
size_t SpanBytes(const Operation& operation, const Region& region);
bool Contains(const Operation& operation, const Region& region, size_t byte);
std::string Text(const Operation& operation);
std::string Text(const Program& program);

}  // namespace order_programs
