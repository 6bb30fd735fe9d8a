// How the pages of managed memory follow the work of streams and the touches of the program: the part of ManagedMemory
// that changes their states.

#include <algorithm>
#include <atomic>

#include "client-stub/managed/fault_handler.h"
#include "client-stub/managed/managed_memory.h"
#include "client-stub/managed/service_thread.h"
#include "client-stub/session/session.h"
#include "protocol/base/clock.h"
#include "protocol/base/first_time.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

// Longer than nearly all kernels take: who waits so long for one may be what it waits for.
constexpr uint64_t kLongTouchNs = 10'000'000'000;

Range Overlap(const Range& a, const Range& b) {
  const uint64_t base = std::max(a.base, b.base);
  const uint64_t end = std::min(a.end(), b.end());
  return end > base ? Range{base, end - base} : Range{};
}

Access AccessIn(PageState state) {
  return state == PageState::kDevice ? Access::kNone : state == PageState::kShared ? Access::kRead : Access::kReadWrite;
}

}  // namespace

void ManagedMemory::SetStates(Block& block, const PageRun& run, PageState state) {
  const bool before = block.states.any_accessible();
  block.states.Set(run, state);
  const bool after = block.states.any_accessible();
  if (after && !before) accessible_.fetch_add(1, std::memory_order_release);
  if (before && !after) accessible_.fetch_sub(1, std::memory_order_release);
}

bool ManagedMemory::Change(Block& block, const PageRun& run, PageState state) {
  if (run.empty()) return true;
  if (!block.pages->Protect(block.RangeOf(run), AccessIn(state))) return false;
  SetStates(block, run, state);
  return true;
}

bool ManagedMemory::Uses(const Block& block, const WorkedStream& stream) const {
  if (stream.stream.is_null()) return true;
  // A stream that is gone gives its memory back to all.
  const auto uses = [&](HandleId attached) {
    return attached.is_null() || attached == stream.stream || !session_.handles().IsLive(attached, HandleKind::kStream);
  };
  if (block.small == nullptr) return uses(block.attached);
  return block.small_attached.size() < block.small->count() ||
         std::any_of(block.small_attached.begin(), block.small_attached.end(), [&](const auto& one) { return uses(one.second); });
}

PageRun ManagedMemory::PagesOf(const Block& block, const Range& range) const {
  if (range.bytes == 0) return PageRun{0, block.states.size()};
  const Range part = Overlap(range, block.range);
  if (part.bytes == 0) return PageRun{};
  const uint64_t first = (part.base - block.range.base) / kManagedPageBytes;
  return PageRun{first, (part.end() - block.range.base + kManagedPageBytes - 1) / kManagedPageBytes - first};
}

CUresult ManagedMemory::Prepare(const ManagedUse& use) {
  if (!accessible()) return CUDA_SUCCESS;
  EnsureFaultHandler();
  CUresult result = CUDA_SUCCESS;
  ServiceThreads::Process().common().Run([&] {
    MutexLock lock(mutex_);
    result = PrepareHere(use);
  });
  return result;
}

// In three steps, so that no write of the program's is lost: it can write no more; what it wrote goes to the device; the
// pages change hands.
CUresult ManagedMemory::PrepareHere(const ManagedUse& use) {
  struct Pushed {
    Block* block;
    PageRun pages;
  };
  std::vector<Pushed> pushed;
  std::vector<HandleId> contexts;
  CUresult result = CUDA_SUCCESS;
  const Access access = use.reads_only ? Access::kRead : Access::kNone;
  for (auto& [base, block] : blocks_) {
    if (!block.states.any_accessible() || !Uses(block, use.stream)) continue;
    const PageRun part = PagesOf(block, use.range);
    for (PageRun dirty = block.states.Next(part.first, part.end(), PageState::kHost); !dirty.empty() && result == CUDA_SUCCESS;
         dirty = block.states.Next(dirty.end(), part.end(), PageState::kHost)) {
      if (!block.pages->Protect(block.RangeOf(dirty), access)) result = CUDA_ERROR_OPERATING_SYSTEM;
      pushed.push_back(Pushed{&block, dirty});
      if (result == CUDA_SUCCESS) result = Push(block, dirty);
    }
    const bool uploads = !pushed.empty() && pushed.back().block == &block;
    if (uploads && std::find(contexts.begin(), contexts.end(), block.context) == contexts.end()) {
      contexts.push_back(block.context);
    }
  }
  for (const HandleId context : contexts) {
    if (result == CUDA_SUCCESS) result = transfers_.Finish(context);
  }
  if (result != CUDA_SUCCESS) {
    LogDebug("what the program wrote to managed memory did not reach the device: result {}", static_cast<int>(result));
    for (const Pushed& one : pushed) one.block->pages->Protect(one.block->RangeOf(one.pages), Access::kReadWrite);
    return result;
  }
  for (const Pushed& one : pushed) SetStates(*one.block, one.pages, use.reads_only ? PageState::kShared : PageState::kDevice);
  if (!use.reads_only) SettleHere(use);
  return CUDA_SUCCESS;
}

void ManagedMemory::Note(const ManagedUse& use) {
  if (use.reads_only) return;  // pages keep their bytes
  pending_.Note(use.stream);
  // Who fetches pages now may not have waited for this work: then they are taken back behind that. Whoever begins later waits.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!accessible() && !fetching_.load(std::memory_order_acquire) && !accessible()) return;
  ServiceThreads::Process().common().Run([&] {
    MutexLock lock(mutex_);
    SettleHere(use);
  });
}

void ManagedMemory::SettleHere(const ManagedUse& use) {
  for (auto& [base, block] : blocks_) {
    if (block.states.any_accessible() && Uses(block, use.stream)) Settle(block, PagesOf(block, use.range));
  }
}

void ManagedMemory::Settle(Block& block, const PageRun& part) {
  for (PageRun shared = block.states.Next(part.first, part.end(), PageState::kShared); !shared.empty();
       shared = block.states.Next(shared.end(), part.end(), PageState::kShared)) {
    if (Change(block, shared, PageState::kDevice)) continue;
    // No room for another boundary between protections. The whole block has none; what the program may touch of it gets
    // its protection back when it is touched (Fetch).
    block.pages->Protect(block.range, Access::kNone);
    SetStates(block, shared, PageState::kDevice);
  }
}

CUresult ManagedMemory::Push(const Block& block, const PageRun& run) {
  CUresult result = CUDA_SUCCESS;
  block.pages->ForEachTouched(block.RangeOf(run), [&](const Range& touched) {
    for (const Range& extent : block.extents) {
      const Range part = Overlap(touched, extent);
      if (part.bytes == 0 || result != CUDA_SUCCESS) continue;
      result = transfers_.Upload(block.context, part.base, block.pages->AliasOf(part.base), part.bytes);
    }
    return result == CUDA_SUCCESS;
  });
  return result;
}

CUresult ManagedMemory::AfterHostFunction() {
  if (!accessible()) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  ServiceThreads::Process().of_host_functions().Run([&] {
    MutexLock lock(mutex_);
    result = PrepareHere(ManagedUse{});
  });
  return result;
}

CUresult ManagedMemory::WaitForWorkOn(uint64_t address) {
  std::vector<WorkedStream> streams;
  {
    MutexLock lock(mutex_);
    Block* const block = Find(address);
    if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
    streams = pending_.Take([&](const WorkedStream& stream) { return Uses(*block, stream) || block->earlier.contains(stream); });
  }
  if (const CUresult result = WaitForEach(streams); result != CUDA_SUCCESS) return result;
  MutexLock lock(mutex_);
  if (Block* const block = Find(address)) {
    for (const WorkedStream& stream : streams) block->earlier.erase(stream);
  }
  return CUDA_SUCCESS;
}

void ManagedMemory::BeforeCapture() {
  if (!any()) return;
  ServiceThreads::Process().common().Run([&] {
    // What failed is waited for again by the next touch, which then fails.
    (void)WaitForEach(pending_.Take([](const WorkedStream&) { return true; }));
  });
}

CUresult ManagedMemory::WaitForEach(const std::vector<WorkedStream>& streams) {
  CUresult first = CUDA_SUCCESS;
  for (const WorkedStream& stream : streams) {
    const CUresult result = transfers_.Wait(stream);
    if (result == CUDA_SUCCESS) continue;
    pending_.Note(stream);
    if (first == CUDA_SUCCESS) first = result;
  }
  return first;
}

CUresult ManagedMemory::Pull(const Block& block, const PageRun& run) {
  for (const Range& extent : block.extents) {
    const Range part = Overlap(block.RangeOf(run), extent);
    if (part.bytes == 0) continue;
    const CUresult result = transfers_.Download(block.context, block.pages->AliasOf(part.base), part.base, part.bytes);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult ManagedMemory::Fetch(Block& block, uint64_t address, bool write, bool waited) {
  const uint64_t page = (address - block.range.base) / kManagedPageBytes;
  PageState before = block.states.At(page);
  if (before == PageState::kHost) {  // another thread's touch was served meanwhile
    if (block.pages->Protect(block.RangeOf(PageRun{page, 1}), Access::kReadWrite)) return CUDA_SUCCESS;
    if (block.small == nullptr) return FetchAll(block);
    if (const CUresult result = GiveAway(); result != CUDA_SUCCESS) return result;
    before = PageState::kDevice;
  }
  // A fault on a page that could be read is a write.
  const PageState after = write || before == PageState::kShared ? PageState::kHost : PageState::kShared;
  const PageRun run = FetchedWith(block, page, before, waited && after == PageState::kShared);
  if (before == PageState::kDevice) {
    if (const CUresult result = Pull(block, run); result != CUDA_SUCCESS) return result;
  }
  if (Change(block, run, after)) return CUDA_SUCCESS;
  if (block.small == nullptr) return FetchAll(block);
  // What was pulled stays what the device has.
  if (const CUresult result = GiveAway(); result != CUDA_SUCCESS) return result;
  return Change(block, run, after) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

// In a span a touch fetches pages of its own block alone. Another thread's kernels may use the others, and would not see that
// this process has their pages for writing. Pages for reading are taken back behind such work (Note), so they may be of all
// blocks.
PageRun ManagedMemory::FetchedWith(Block& block, uint64_t page, PageState state, bool reads_all) {
  const PageRun run = block.states.Fetch(page, state);
  if (block.small == nullptr || reads_all) return run;
  const std::optional<Range> small = block.small->Find(block.range.base + page * kManagedPageBytes);
  if (!small) return PageRun{page, 1};
  const PageRun own = PagesOf(block, *small);
  const uint64_t first = std::max(run.first, own.first);
  return PageRun{first, std::min(run.end(), own.end()) - first};
}

// As before work that may use all memory.
CUresult ManagedMemory::GiveAway() {
  if (const CUresult result = PrepareHere(ManagedUse{}); result != CUDA_SUCCESS) return result;
  for (const auto& [base, block] : blocks_) {
    if (block.small != nullptr && !block.pages->Protect(block.range, Access::kNone)) return CUDA_ERROR_OPERATING_SYSTEM;
  }
  return CUDA_SUCCESS;
}

// For want of room for more boundaries between protections: the whole block gets one.
CUresult ManagedMemory::FetchAll(Block& block) {
  const PageRun all{0, block.states.size()};
  for (PageRun run = block.states.Next(0, all.end(), PageState::kDevice); !run.empty();
       run = block.states.Next(run.end(), all.end(), PageState::kDevice)) {
    if (const CUresult result = Pull(block, run); result != CUDA_SUCCESS) return result;
  }
  return Change(block, all, PageState::kHost) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult ManagedMemory::FetchAfterWork(uint64_t address, bool write) {
  fetching_.store(true, std::memory_order_seq_cst);
  touched_at_ns_.store(MonotonicNs(), std::memory_order_relaxed);
  CUresult result = WaitForWorkOn(address);
  touched_at_ns_.store(0, std::memory_order_relaxed);
  if (result == CUDA_SUCCESS) {
    MutexLock lock(mutex_);
    Block* const block = Find(address);
    result = block == nullptr ? CUDA_ERROR_INVALID_VALUE : Fetch(*block, address, write, true);
  }
  fetching_.store(false, std::memory_order_release);
  return result;
}

void ManagedMemory::WarnOfLongTouch() {
  const uint64_t since = touched_at_ns_.load(std::memory_order_relaxed);
  if (since == 0 || MonotonicNs() - since < kLongTouchNs || !FirstTime("the program waits to touch managed memory")) return;
  LogWarning(
      "the program has waited {} s to touch managed memory: a touch waits for running kernels here (concurrentManagedAccess "
      "is 0). A kernel that waits for the touch waits for ever: let it wait for a flag in pinned memory",
      kLongTouchNs / 1'000'000'000);
}

bool ManagedMemory::Resolve(uint64_t address, bool write, bool in_host_function) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (in_host_function) {
    // Its stream waits for it, and what that stream did before is done.
    MutexLock lock(mutex_);
    if (Block* const block = Find(address)) result = Fetch(*block, address, write, false);
  } else {
    result = FetchAfterWork(address, write);
  }
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE) return result == CUDA_SUCCESS;
  LogError(
      "managed memory at {:#x} could not be fetched from the device: result {}; the access ends as one of memory that "
      "does not exist",
      address, static_cast<int>(result));
  return false;
}

}  // namespace tessera
