// One row for each condition under which the client library itself refuses a call because of memory, a combination of
// handles, the state of an object or a feature (null pointers and sizes have no rows). The rows are the files of this
// directory; main.cc asks them in order and prints `name: code`.
//
// A new condition is a new row: what is asked, which file of client-stub refuses it, what NVIDIA's driver answers.
#pragma once

#include <cuda.h>

#include <span>

namespace refusals {

// Where a row is not asked, or answered otherwise.
enum Option : unsigned {
  kNeedsGpu = 1,     // the emulated device has nothing of the kind
  kBeforeInit = 2,   // asked without a context, before cuInit
  kOwnProcess = 4,   // what it leaves behind would change later answers
  kDangerous = 8,    // the driver reads memory that it has freed, and may crash: the answer is the client's own
  kOnLinks = 16,     // the limit holds where client and server share no pages
  kUnmeasured = 32,  // the answer is the client's own so far: a native run names the row, whatever the driver says
};

struct Row {
  const char* name;   // "function: condition"
  const char* where;  // the file of client-stub that refuses
  CUresult answer;    // of driver 580.159.04 on an H200 (tests/gpu/refusals asks again), but for kUnmeasured
  CUresult (*ask)();  // makes the condition, asks, cleans up; the primary context of device 0 is current
  unsigned options = 0;
  // Where forwarding differs from the driver, and a limit of client-stub/README.md or README.md says so.
  CUresult forwarded = CUDA_SUCCESS;
  const char* limit = nullptr;
};

std::span<const Row> CaptureEndRows();
std::span<const Row> CaptureRows();
std::span<const Row> ContextRows();
std::span<const Row> CopyRows();
std::span<const Row> GraphRows();
std::span<const Row> HostAllocationRows();
std::span<const Row> HostMemoryRows();
std::span<const Row> HostPoolRows();
std::span<const Row> LaunchRows();
std::span<const Row> ManagedRows();
std::span<const Row> MemoryRows();
std::span<const Row> ModuleRows();
std::span<const Row> PoolRows();
std::span<const Row> StreamRows();
std::span<const Row> TextureRows();
std::span<const Row> UnsupportedRows();
std::span<const Row> WithoutContextRows();

}  // namespace refusals
