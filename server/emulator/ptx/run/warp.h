// State of running threads: a warp with its diverged parts, a block, one worker thread's share of a grid.
//
// Ownership: Worker owns blocks, Block owns warps, Warp owns frames. All of one block run on one thread; only GridRun is
// shared between threads.
#pragma once

#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/emulator/ptx/run/code.h"
#include "server/emulator/ptx/run/launch.h"

namespace tessera::emulator {

class Block;
class Worker;
struct Executable;

// What all threads of one Run share.
struct GridRun {
  const Launch* launch = nullptr;
  const Environment* environment = nullptr;
  const Executable* executable = nullptr;
  std::vector<uint8_t> parameters;         // copy, padded
  alignas(16) uint8_t workspace[64] = {};  // what cooperative_groups::grid_group finds through %envreg1 and 2
  uint64_t block_count = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t shared_bytes = 0;  // with the dynamic part
  std::atomic<uint64_t> next_block{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> instructions{0};
  std::mutex mutex;  // guards result and printing
  LaunchResult result;

  // The first failure wins.
  void Fail(LaunchError error, std::string message);
};

struct Frame {
  const Code* code = nullptr;
  uint8_t* regs = nullptr;
  uint32_t local_base = 0;
};

// Lanes that run together: one position in the code.
struct Split {
  enum State : uint8_t { kReady, kAtBarrier, kAtWarpSync };
  uint32_t pc = 0;
  uint32_t mask = 0;
  Frame* frame = nullptr;
  int32_t node = -1;
  State state = kReady;
  uint8_t barrier = 0;
  uint32_t required = 0;  // kAtWarpSync: lanes it waits for
};

// Where diverged lanes meet again: a branch's immediate post-dominator, or the return from a call.
struct Node {
  uint32_t pc = 0;  // where the united lanes go on
  uint32_t expected = 0;
  uint32_t arrived = 0;
  int32_t parent = -1;
  Frame* frame = nullptr;   // of the lanes once united
  Frame* callee = nullptr;  // return nodes: the frame that ends here
  uint32_t call_site = 0;
  uint64_t waiting_since = 0;  // instructions the warp had executed when the first lane arrived
  bool used = false;
};

class Warp {
 public:
  // Prepares the warp for the lanes of `live`, whose first thread has linear index first_thread in the block.
  void Start(Block* block, uint32_t index, uint32_t live, const Code* kernel);
  // Runs up to about `budget` instructions. Returns false when no split is ready.
  bool RunSlice(int64_t budget);

  template <class T>
  T* Slot(uint32_t slot) {
    return reinterpret_cast<T*>(bases_[slot >> 31] + (slot & ~kConstantSlot));
  }
  const uint32_t* Extra(const Inst& inst) const { return frame_->code->extra.data() + inst.extra; }
  uint8_t* LocalLane(uint32_t lane) { return local_.get() + static_cast<size_t>(lane) * local_capacity_; }
  uint32_t local_capacity() const { return local_capacity_; }
  uint32_t local_base() const { return frame_->local_base; }
  uint32_t live() const { return live_; }
  uint32_t current_mask() const { return mask_; }
  uint32_t index() const { return index_; }
  Block& block() { return *block_; }
  Worker& worker() { return *worker_; }
  GridRun& grid() { return *grid_; }
  const Code& code() const { return *frame_->code; }
  uint64_t executed() const { return executed_; }

  // Ends the grid with an error; the message gets the function and the PTX line.
  void Fault(LaunchError error, const Inst& inst, const std::string& what);

  // Lets lanes go ahead that have waited at a meeting point for `age` instructions or more; true if there were any.
  bool ReleaseEarly(uint64_t age);

  // Barrier support, called by Block.
  uint32_t WaitingAt(uint32_t barrier) const;
  void ReleaseBarrier(uint32_t barrier);

  uint32_t thread_x[kLaneCount], thread_y[kLaneCount], thread_z[kLaneCount];

 private:
  void Execute(int64_t budget);
  bool PickSplit();
  void StoreCurrent();
  void LoadCurrent(const Split& split);
  void DropCurrent();
  // Diverging, meeting, leaving (divergence.cc).
  void Branch(const Inst& inst, uint32_t taken);
  void BranchTable(const Inst& inst, uint32_t lanes);
  void Scatter(const Inst& inst, uint32_t lanes, const uint32_t* targets);
  int32_t NewNode(uint32_t pc, uint32_t expected, int32_t parent, Frame* frame);
  void Arrive(int32_t node, uint32_t lanes);
  void CompleteNode(int32_t node);
  void Call(const Inst& inst, const Code* callee, uint32_t lanes);
  void CallIndirect(const Inst& inst, uint32_t lanes);
  void Return(uint32_t lanes);
  void Exit(uint32_t lanes);
  void Withdraw(int32_t node, int32_t until, uint32_t lanes);
  void WarpSync(const Inst& inst, uint32_t lanes);
  bool ForceWarpSync();
  bool ResolveWarpSync(bool force);
  void Barrier(const Inst& inst, uint32_t lanes);
  Frame* NewFrame(const Code* code, uint32_t local_base);
  void FreeFrame(Frame* frame);
  bool GrowLocal(uint32_t needed);
  void Move(const Transfer& from, const Frame& from_frame, const Transfer& to, const Frame& to_frame, uint32_t lanes);

  // The current split, unpacked.
  uint8_t* bases_[2] = {nullptr, nullptr};
  Frame* frame_ = nullptr;
  Frame* root_frame_ = nullptr;  // the kernel's own
  uint32_t pc_ = 0;
  uint32_t mask_ = 0;
  int32_t node_ = -1;
  bool running_ = false;
  bool yielded_ = false;

  uint32_t live_ = 0;
  uint32_t index_ = 0;
  Block* block_ = nullptr;
  Worker* worker_ = nullptr;
  GridRun* grid_ = nullptr;
  uint64_t executed_ = 0;
  std::vector<Split> splits_;  // not running
  std::vector<Node> nodes_;
  std::vector<int32_t> free_nodes_;
  std::unique_ptr<uint8_t[], FreeDeleter> local_;
  uint32_t local_capacity_ = 0;
};

struct BarrierState {
  uint32_t arrived[32] = {};      // lanes per warp
  uint32_t expected_threads = 0;  // 0: all live threads of the block
  uint32_t popc = 0;
  bool all = true;
  bool any = false;
  bool in_use = false;
};

class Block {
 public:
  void Start(Worker* worker, uint64_t linear_index);
  // Runs up to about `budget` instructions per warp; false when the block has ended (or the grid is to stop).
  bool RunSlice(int64_t budget);

  // A split of `warp` arrives. Returns true when it completes the barrier at once.
  void ArriveBarrier(Warp& warp, uint32_t id, uint32_t lanes, uint32_t thread_count);
  void CheckBarriers();
  BarrierState& barrier(uint32_t id) { return barriers_[id]; }
  uint8_t* shared() { return shared_.data(); }
  uint32_t shared_bytes() const { return static_cast<uint32_t>(shared_.size()); }
  Worker& worker() { return *worker_; }

  uint32_t id_x = 0, id_y = 0, id_z = 0;
  uint64_t linear_index = 0;

 private:
  bool BarrierComplete(const BarrierState& state) const;
  Worker* worker_ = nullptr;
  std::vector<std::unique_ptr<Warp>> warps_;
  uint32_t warp_count_ = 0;
  uint32_t first_warp_ = 0;
  std::vector<uint8_t> shared_;
  BarrierState barriers_[17];  // the last is that of the cluster
};

// One thread of a Run.
class Worker {
 public:
  explicit Worker(GridRun* grid);
  ~Worker();
  void Run();

  GridRun& grid() { return *grid_; }
  // True when [low, high) lies in one accessible range; the fast path of every global access.
  bool InCachedRange(uint64_t low, uint64_t high, bool write) const {
    return low >= cached_.begin && high <= cached_.end && low < high && (!write || cached_.writable);
  }
  bool FindRange(uint64_t low, uint64_t high, bool write);
  Frame* TakeFrame(const Code* code);
  void GiveFrame(Frame* frame);

 private:
  GridRun* grid_;
  MemoryRange cached_;
  std::vector<MemoryRange> recent_;
  uint64_t generation_ = 0;
  uint32_t next_recent_ = 0;
  std::unordered_map<const Code*, std::vector<Frame*>> free_frames_;
  std::vector<std::unique_ptr<Frame>> frames_;
};

}  // namespace tessera::emulator
