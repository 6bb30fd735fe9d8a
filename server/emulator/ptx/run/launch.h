// Runs a kernel of a Module on the host's processors.
//
// Blocks run in parallel on worker threads, started in order of their index but shuffled by a seed within small windows;
// the warps of a block interleave on one thread. A block that runs long is set aside so that others get their turn:
// blocks may wait for each other (cooperative grid synchronisation, decoupled look-back) without hanging.
// Race-free programs give the same result for every seed and thread count.
// Source: PTX ISA 9.0, "Programming Model"; CUDA C++ Programming Guide, "Hardware Implementation".
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "server/emulator/ptx/run/module.h"
#include "server/emulator/ptx/run/texture.h"

namespace tessera::emulator {

struct MemoryRange {
  uint64_t begin = 0;
  uint64_t end = 0;  // one past the last byte
  bool writable = false;
};

// Which host addresses a kernel may touch as global memory. Implementations are called from many threads at once.
class MemoryMap {
 public:
  virtual ~MemoryMap() = default;
  // Stores the accessible range that contains `address`; false when there is none. Adjacent allocations must be separate
  // ranges only if an access that crosses from one to the other is an error.
  virtual bool Find(uint64_t address, MemoryRange* range) = 0;
  // Changes whenever a range that Find may have returned is withdrawn; runs keep ranges until it does.
  std::atomic<uint64_t> generation{0};
};

// Device-side malloc and free. Called from many threads at once.
class DeviceHeap {
 public:
  virtual ~DeviceHeap() = default;
  // 0 when the heap is exhausted, as device malloc returns NULL. The memory must be in the MemoryMap.
  virtual uint64_t Allocate(uint64_t size_bytes) = 0;
  // False when `address` is not an allocation of this heap: the launch then fails.
  virtual bool Free(uint64_t address) = 0;
};

// Where device printf text goes. Called under a lock of the run, one complete printf at a time.
class PrintSink {
 public:
  virtual ~PrintSink() = default;
  virtual void Print(std::string_view text) = 0;
};

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

// Where launches of graphs and changes of graph nodes lead: cudaGraphLaunch, cudaGraphKernelNodeSet... Called from many threads
// at once. The results are numbers of cudaError_t, or kNoSuchObject: the launch of the kernel then fails.
class GraphSink {
 public:
  static constexpr uint32_t kNoSuchObject = UINT32_MAX;

  virtual ~GraphSink() = default;
  // %current_graph_exec. 0: the kernel runs in no graph that kernels may launch.
  virtual uint64_t current() const = 0;
  // `how` is one of the streams for launches by kernels.
  virtual uint32_t Launch(uint64_t graph, uint64_t how) = 0;
  virtual uint32_t SetParameter(uint64_t node, uint64_t offset_bytes, std::span<const std::byte> value) = 0;
  virtual uint32_t SetEnabled(uint64_t node, bool enabled) = 0;
  virtual uint32_t SetGrid(uint64_t node, const Dim3& grid) = 0;
};

// Where cudaGraphSetConditional leads. Called from many threads at once.
class ConditionSink {
 public:
  virtual ~ConditionSink() = default;
  // False when there is no such conditional handle: the launch then fails.
  virtual bool Set(uint64_t handle, uint32_t value) = 0;
};

// When a grid may run, on a device that others use as well. Called from many threads at once.
class TurnSource {
 public:
  virtual ~TurnSource() = default;
  // Returns when the grid may go on, for some thousand instructions.
  virtual void Await() = 0;
};

struct Launch {
  const Kernel* kernel = nullptr;
  Dim3 grid;
  Dim3 block;
  uint32_t dynamic_shared_bytes = 0;
  std::span<const std::byte> parameters;  // packed; at least KernelInfo::parameter_bytes; copied before Run returns
  bool cooperative = false;               // all blocks are made resident
  Dim3 cluster;                           // only 1x1x1 runs
};

struct Environment {
  MemoryMap* memory = nullptr;                // required
  PrintSink* print = nullptr;                 // null: a kernel that prints fails
  DeviceHeap* heap = nullptr;                 // null: a kernel that calls malloc or free fails
  TextureMap* textures = nullptr;             // null: no object is one
  ConditionSink* conditions = nullptr;        // null: a kernel that sets a condition fails
  GraphSink* graphs = nullptr;                // null: a kernel that launches a graph or changes a node fails
  TurnSource* turn = nullptr;                 // null: the grid may always run
  const std::atomic<bool>* cancel = nullptr;  // polled; true ends the run with kCancelled
  uint32_t thread_count = 0;                  // 0: one per processor; 1: everything on the calling thread
  uint64_t seed = 0;                          // order of blocks and warps
  uint64_t grid_id = 0;                       // %gridid
};

enum class LaunchError {
  kNone,
  kInvalidValue,        // the launch itself is wrong: dimensions, parameters, shared memory
  kUnsupported,         // an instruction or feature that the emulator does not have; the message names it
  kIllegalAddress,      // CUDA_ERROR_ILLEGAL_ADDRESS
  kMisalignedAddress,   // CUDA_ERROR_MISALIGNED_ADDRESS
  kIllegalInstruction,  // CUDA_ERROR_ILLEGAL_INSTRUCTION, such as a call of an unresolved function pointer
  kAssert,              // CUDA_ERROR_ASSERT; the message is what the device would print
  kTrap,                // trap, CUDA_ERROR_LAUNCH_FAILED natively
  kStackOverflow,       // CUDA_ERROR_HARDWARE_STACK_ERROR
  kDeadlock,            // no thread of a block can ever run again; a device would hang
  kCancelled,
};

struct LaunchResult {
  LaunchError error = LaunchError::kNone;
  std::string message;        // for people; with the PTX line where one is to blame
  uint64_t instructions = 0;  // warp instructions executed
  bool ok() const { return error == LaunchError::kNone; }
};

// Runs the whole grid and returns when it has ended. Blocking; any thread; several runs may be in progress at once.
// On an error memory holds whatever the grid had written until then, as on a device.
LaunchResult Run(const Launch& launch, const Environment& environment);

// False when this processor lacks the vector instructions (AVX2, FMA, F16C) the emulator is compiled for.
bool ProcessorSupported();

}  // namespace tessera::emulator
