// A run of a whole grid: worker threads, the order of blocks, time slices. The contract is in launch.h.
#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <thread>

#include "server/emulator/ptx/run/program.h"
#include "server/emulator/ptx/run/warp.h"

namespace tessera::emulator {
namespace {

constexpr int64_t kFirstSlice = 20000;  // instructions of a warp before the block's next one has its turn
constexpr int kFirstRounds = 16;        // such turns before another block starts beside a lone one
constexpr int64_t kLaterSlice = 1000;   // once blocks share a thread they may be waiting for each other
constexpr size_t kMaxResident = 64;     // per thread, more than the window of the shuffle; cooperative: no bound
constexpr uint64_t kShuffleWindow = 16;

uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDull;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53ull;
  return x ^ x >> 33;
}

// The block that starts as number `position`: a permutation within each window of kShuffleWindow.
uint64_t BlockAt(uint64_t position, uint64_t count, uint64_t seed) {
  const uint64_t window = position / kShuffleWindow;
  const uint64_t first = window * kShuffleWindow;
  const uint64_t size = std::min(kShuffleWindow, count - first);
  uint8_t order[kShuffleWindow];
  for (uint64_t i = 0; i < kShuffleWindow; ++i) order[i] = static_cast<uint8_t>(i);
  uint64_t state = Mix(seed * 0x9E3779B97F4A7C15ull + window + 1);
  for (uint64_t i = size; i > 1; --i) {
    state = Mix(state + i);
    std::swap(order[i - 1], order[state % i]);
  }
  return first + order[position - first];
}

LaunchResult Invalid(LaunchError error, std::string message) {
  LaunchResult result;
  result.error = error;
  result.message = std::move(message);
  return result;
}

}  // namespace

void GridRun::Fail(LaunchError error, std::string message) {
  std::lock_guard<std::mutex> lock(mutex);
  if (result.error == LaunchError::kNone) {
    result.error = error;
    result.message = std::move(message);
  }
  stop.store(true);
}

Worker::Worker(GridRun* grid) : grid_(grid) {
  generation_ = grid->environment->memory->generation.load(std::memory_order_acquire);
}

Worker::~Worker() {
  for (auto& frame : frames_) std::free(frame->regs);
}

Frame* Worker::TakeFrame(const Code* code) {
  std::vector<Frame*>& free = free_frames_[code];
  if (!free.empty()) {
    Frame* frame = free.back();
    free.pop_back();
    return frame;
  }
  frames_.push_back(std::make_unique<Frame>());
  Frame* frame = frames_.back().get();
  frame->code = code;
  frame->regs = static_cast<uint8_t*>(std::aligned_alloc(64, code->frame_bytes));
  std::memset(frame->regs, 0, code->frame_bytes);
  return frame;
}

void Worker::GiveFrame(Frame* frame) { free_frames_[frame->code].push_back(frame); }

bool Worker::FindRange(uint64_t low, uint64_t high, bool write) {
  auto fits = [&](const MemoryRange& range) {
    return low >= range.begin && high <= range.end && low < high && (!write || range.writable);
  };
  const uint64_t generation = grid_->environment->memory->generation.load(std::memory_order_acquire);
  if (generation != generation_) {
    generation_ = generation;
    recent_.clear();
    cached_ = {};
  }
  for (const MemoryRange& range : recent_) {
    if (fits(range)) {
      cached_ = range;
      return true;
    }
  }
  const auto parameters = reinterpret_cast<uint64_t>(grid_->parameters.data());
  const auto workspace = reinterpret_cast<uint64_t>(grid_->workspace);
  MemoryRange range{parameters, parameters + grid_->parameters.size(), false};
  if (!fits(range)) range = {workspace, workspace + sizeof(grid_->workspace), true};
  if (!fits(range) && !(grid_->environment->memory->Find(low, &range) && fits(range))) return false;
  cached_ = range;
  if (recent_.size() < 8)
    recent_.push_back(range);
  else
    recent_[next_recent_++ % 8] = range;
  return true;
}

void Worker::Run() {
  const bool cooperative = grid_->launch->cooperative;
  const std::atomic<bool>* cancel = grid_->environment->cancel;
  TurnSource* const turn = grid_->environment->turn;
  std::deque<std::unique_ptr<Block>> resident;
  std::vector<std::unique_ptr<Block>> idle;
  auto admit = [&] {
    const uint64_t position = grid_->next_block.fetch_add(1, std::memory_order_relaxed);
    if (position >= grid_->block_count) return false;
    std::unique_ptr<Block> block;
    if (idle.empty()) {
      block = std::make_unique<Block>();
    } else {
      block = std::move(idle.back());
      idle.pop_back();
    }
    block->Start(this, BlockAt(position, grid_->block_count, grid_->environment->seed));
    resident.push_front(std::move(block));
    return true;
  };
  while (!grid_->stop.load(std::memory_order_relaxed)) {
    if (resident.empty() && !admit()) return;
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      return grid_->Fail(LaunchError::kCancelled, "the launch was cancelled");
    }
    std::unique_ptr<Block> block = std::move(resident.front());
    resident.pop_front();
    const bool alone = resident.empty() && !cooperative;
    bool goes_on = true;
    for (int round = 0; goes_on && round < (alone ? kFirstRounds : 1); ++round) {
      if (turn != nullptr) turn->Await();
      goes_on = block->RunSlice(alone ? kFirstSlice : kLaterSlice);
    }
    if (!goes_on) {
      idle.push_back(std::move(block));
      continue;
    }
    resident.push_back(std::move(block));
    if (cooperative || resident.size() < kMaxResident) admit();
  }
}

LaunchResult Run(const Launch& launch, const Environment& environment) {
  if (launch.kernel == nullptr || environment.memory == nullptr)
    return Invalid(LaunchError::kInvalidValue, "a launch lacks its kernel or memory");
  if (!ProcessorSupported()) return Invalid(LaunchError::kUnsupported, "this processor lacks AVX2, FMA or F16C");
  const KernelInfo& info = launch.kernel->info();
  const uint64_t threads = static_cast<uint64_t>(launch.block.x) * launch.block.y * launch.block.z;
  const Dim3& g = launch.grid;
  if (launch.block.x == 0 || launch.block.y == 0 || launch.block.z == 0 || launch.block.x > 1024 || launch.block.y > 1024 ||
      launch.block.z > 64 || threads > 1024 || threads > info.max_threads_per_block || g.x == 0 || g.y == 0 || g.z == 0 ||
      g.x > 0x7FFFFFFFu || g.y > 65535 || g.z > 65535) {
    return Invalid(LaunchError::kInvalidValue,
                   fmt::format("a grid of {}x{}x{} blocks of {}x{}x{} threads is outside the limits of '{}'", g.x, g.y, g.z,
                               launch.block.x, launch.block.y, launch.block.z, info.name));
  }
  for (int i = 0; i < 3; ++i) {
    const uint32_t dim = i == 0 ? launch.block.x : i == 1 ? launch.block.y : launch.block.z;
    if (info.required_block[0] != 0 && info.required_block[i] != dim) {
      return Invalid(LaunchError::kInvalidValue, fmt::format("'{}' requires another block size (.reqntid)", info.name));
    }
  }
  if (static_cast<uint64_t>(launch.cluster.x) * launch.cluster.y * launch.cluster.z > 1) {
    return Invalid(LaunchError::kUnsupported,
                   fmt::format("'{}' is launched with clusters of several blocks, which the emulator does not have", info.name));
  }
  if (launch.parameters.size() < info.parameter_bytes) {
    return Invalid(LaunchError::kInvalidValue, fmt::format("'{}' takes {} bytes of parameters, {} were given", info.name,
                                                           info.parameter_bytes, launch.parameters.size()));
  }
  Result<const Executable*> executable = PrepareExecutable(*launch.kernel);
  if (!executable.ok()) return Invalid(LaunchError::kUnsupported, executable.status().message());

  GridRun grid;
  grid.launch = &launch;
  grid.environment = &environment;
  grid.executable = *executable;
  grid.parameters.assign(info.parameter_bytes + 16, 0);
  std::copy_n(reinterpret_cast<const uint8_t*>(launch.parameters.data()), info.parameter_bytes, grid.parameters.begin());
  grid.block_count = static_cast<uint64_t>(g.x) * g.y * g.z;
  grid.static_shared_bytes = grid.executable->static_shared_bytes;
  const uint64_t shared = static_cast<uint64_t>(grid.executable->dynamic_shared_offset) + launch.dynamic_shared_bytes;
  if (shared > (1u << 20))
    return Invalid(LaunchError::kInvalidValue, fmt::format("{} bytes of shared memory are too many", shared));
  grid.shared_bytes = static_cast<uint32_t>(std::max<uint64_t>(shared, grid.static_shared_bytes));

  uint64_t count = environment.thread_count != 0 ? environment.thread_count : std::max(1u, std::thread::hardware_concurrency());
  count = std::min(count, grid.block_count);
  std::vector<std::thread> threads_running;
  for (uint64_t i = 1; i < count; ++i) {
    threads_running.emplace_back([&grid] { Worker(&grid).Run(); });
  }
  Worker(&grid).Run();
  for (std::thread& thread : threads_running) thread.join();
  grid.result.instructions = grid.instructions.load();
  return grid.result;
}

bool ProcessorSupported() {
  // Processors with FMA have F16C (not every compiler can ask for it).
  static const bool supported = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return supported;
}

}  // namespace tessera::emulator
