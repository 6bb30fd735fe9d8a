#include "client-stub/managed/managed_memory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "client-stub/managed/fault_handler.h"
#include "client-stub/managed/service_thread.h"
#include "client-stub/memory/client_memory.h"
#include "client-stub/process/address_windows.h"
#include "client-stub/session/session.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

// `function` on the service thread with the lock, and its result.
template <typename Function>
auto OnService(Mutex& mutex, Function function) {
  decltype(function()) result{};
  ServiceThreads::Process().common().Run([&] {
    MutexLock lock(mutex);
    result = function();
  });
  return result;
}

Range PagesAround(const Range& range) {
  const uint64_t base = range.base & ~(kManagedPageBytes - 1);
  const uint64_t end = (range.end() + kManagedPageBytes - 1) & ~(kManagedPageBytes - 1);
  return Range{base, end - base};
}

}  // namespace

CUresult ManagedMemory::MapWindow() {
  if (window_pages_ != nullptr) return CUDA_SUCCESS;
  Result<std::unique_ptr<SharedPages>> mapped = SharedPages::Map(window_);
  if (!mapped.ok()) {
    LogWarning("no managed memory: {}", mapped.status().message());
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const auto resolve = [](void* owner, uint64_t address, bool write, bool in_host_function) {
    return static_cast<ManagedMemory*>(owner)->Resolve(address, write, in_host_function);
  };
  if (!WatchFaults(window_, this, resolve)) return CUDA_ERROR_OUT_OF_MEMORY;
  session_.OnService([this] { WarnOfLongTouch(); });
  window_pages_ = std::move(mapped).value();
  return CUDA_SUCCESS;
}

CUresult ManagedMemory::Add(const Range& range, uint64_t freed_by, HandleId context) {
  if (!ServiceThreads::Process().Start() || !EnsureFaultHandler()) return CUDA_ERROR_OPERATING_SYSTEM;
  return OnService(mutex_, [&] {
    Block* added = nullptr;
    return AddHere(range, freed_by, context, &added);
  });
}

CUresult ManagedMemory::AddHere(const Range& range, uint64_t freed_by, HandleId context, Block** added) {
  CUresult result = MapWindow();
  // Natively managed memory reads as zero at first, on both sides.
  if (result == CUDA_SUCCESS) result = transfers_.Clear(context, range.base, range.bytes);
  if (result == CUDA_SUCCESS) result = transfers_.Finish(context);
  if (result != CUDA_SUCCESS) return result;
  const auto entry = blocks_.try_emplace(range.base, range, window_pages_.get(), PageState::kDevice).first;
  Block& block = entry->second;
  block.freed_by = freed_by;
  block.context = context;
  block.extents = {range};
  count_.fetch_add(1, std::memory_order_release);
  // Equal on both sides, and free to be written from the start: what is touched is found out when work begins.
  if (!Change(block, PageRun{0, block.states.size()}, PageState::kHost)) {
    Drop(entry);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *added = &block;
  return CUDA_SUCCESS;
}

CUresult ManagedMemory::AddSpan(const Range& span, uint64_t freed_by, HandleId context, uint64_t bytes,
                                std::optional<Range>* taken) {
  if (!ServiceThreads::Process().Start() || !EnsureFaultHandler()) return CUDA_ERROR_OPERATING_SYSTEM;
  return OnService(mutex_, [&] {
    // Without its last page, which nobody may touch: a run of pages never is one mapping with those of another span, so that
    // changing the protection of all of it takes no mapping more.
    const Range range{span.base, span.bytes - kManagedPageBytes};
    Block* added = nullptr;
    if (const CUresult result = AddHere(range, freed_by, context, &added); result != CUDA_SUCCESS) return result;
    added->small = std::make_unique<SmallBlocks>(range);
    spans_[context].emplace(added->small->largest(), range.base);
    return TakeSmallHere(*added, bytes, taken);
  });
}

CUresult ManagedMemory::TakeSmall(uint64_t bytes, HandleId context, std::optional<Range>* taken) {
  if (!any()) return CUDA_SUCCESS;
  return OnService(mutex_, [&] {
    const auto spans = spans_.find(context);
    if (spans == spans_.end()) return CUDA_SUCCESS;
    const auto found = spans->second.lower_bound({bytes, 0});
    return found == spans->second.end() ? CUDA_SUCCESS : TakeSmallHere(blocks_.at(found->second), bytes, taken);
  });
}

CUresult ManagedMemory::TakeSmallHere(Block& span, uint64_t bytes, std::optional<Range>* out) {
  SpansWithRoom& spans = spans_[span.context];
  spans.erase({span.small->largest(), span.range.base});
  const std::optional<SmallBlocks::Taken> taken = span.small->Take(bytes);
  if (span.small->largest() != 0) spans.emplace(span.small->largest(), span.range.base);
  if (!taken) return CUDA_SUCCESS;
  const Range& range = taken->range;
  if (taken->used_before) {
    CUresult result = transfers_.Clear(span.context, range.base, range.bytes);
    if (result == CUDA_SUCCESS) result = transfers_.Finish(span.context);
    if (result != CUDA_SUCCESS) {
      FreeSmallHere(span, range.base);
      return result;
    }
    span.pages->Discard(range);
  }
  if (span.small_advised) span.advice.Update(range, [](Advice& advice) { advice = Advice{}; });
  // Equal on both sides, as in AddHere(). Where the system has no room for that, touches will get it.
  const PageRun run = PagesOf(span, range);
  if (span.states.Next(run.first, run.end(), PageState::kHost) != run) static_cast<void>(Change(span, run, PageState::kHost));
  *out = range;
  return CUDA_SUCCESS;
}

void ManagedMemory::FreeSmallHere(Block& span, uint64_t base) {
  SpansWithRoom& spans = spans_[span.context];
  spans.erase({span.small->largest(), span.range.base});
  span.small->Free(base);
  spans.emplace(span.small->largest(), span.range.base);
}

CUresult ManagedMemory::AddVariable(const Range& range, HandleId container, HandleId context) {
  if (!ServiceThreads::Process().Start() || !EnsureFaultHandler()) return CUDA_ERROR_OPERATING_SYSTEM;
  return OnService(mutex_, [&] { return AddVariableHere(range, container, context); });
}

CUresult ManagedMemory::AddVariableHere(const Range& range, HandleId container, HandleId context) {
  // The driver lays variables side by side: some pages may belong to those of neighbours already.
  const Range pages = PagesAround(range);
  for (uint64_t at = pages.base; at < pages.end();) {
    Block* const known = Find(at);
    const auto next = blocks_.lower_bound(at);
    const uint64_t end = known != nullptr ? known->range.end() : next != blocks_.end() ? next->first : pages.end();
    const Range part{at, std::min(end, pages.end()) - at};
    const uint64_t first = std::max(part.base, range.base);
    const Range extent{first, std::min(part.end(), range.end()) - first};
    const CUresult result = known != nullptr ? AddExtent(*known, extent) : AddVariablePages(part, extent, container, context);
    if (result != CUDA_SUCCESS) return result;
    at = part.end();
  }
  return CUDA_SUCCESS;
}

CUresult ManagedMemory::AddExtent(Block& block, const Range& extent) {
  if (block.container.is_null()) return CUDA_ERROR_OUT_OF_MEMORY;  // not of a variable
  if (const CUresult result = PrepareHere(ManagedUse{{}, block.range}); result != CUDA_SUCCESS) return result;
  if (std::find(block.extents.begin(), block.extents.end(), extent) == block.extents.end()) block.extents.push_back(extent);
  return CUDA_SUCCESS;
}

CUresult ManagedMemory::AddVariablePages(const Range& wanted, const Range& extent, HandleId container, HandleId context) {
  SharedPages* pages = window_.contains(wanted.base, wanted.bytes) ? window_pages_.get() : nullptr;
  if (pages == nullptr && window_.contains(wanted.base, wanted.bytes)) {
    if (const CUresult result = MapWindow(); result != CUDA_SUCCESS) return result;
    pages = window_pages_.get();
  }
  if (const auto known = variable_pages_.find(wanted.base); known != variable_pages_.end()) pages = known->second.get();
  if (pages == nullptr) {
    // The address is the driver's choice: either it is free here as well, or the variable cannot be used.
    if (!AddressWindows::Process().ReserveDriverRange(wanted.base, wanted.bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    Result<std::unique_ptr<SharedPages>> mapped = SharedPages::Map(wanted);
    if (!mapped.ok()) {
      LogWarning("no memory for a managed variable: {}", mapped.status().message());
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const auto resolve = [](void* owner, uint64_t address, bool write, bool in_host_function) {
      return static_cast<ManagedMemory*>(owner)->Resolve(address, write, in_host_function);
    };
    if (!WatchFaults(wanted, this, resolve)) return CUDA_ERROR_OUT_OF_MEMORY;
    pages = variable_pages_.emplace(wanted.base, std::move(mapped).value()).first->second.get();
  }
  if (!pages->view().contains(wanted.base, wanted.bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  // The image says what is in it: the device has it.
  Block& block = blocks_.try_emplace(wanted.base, wanted, pages, PageState::kDevice).first->second;
  block.container = container;
  block.context = context;
  block.extents = {extent};
  count_.fetch_add(1, std::memory_order_release);
  return CUDA_SUCCESS;
}

void ManagedMemory::Drop(Blocks::iterator entry) {
  Block& block = entry->second;
  if (block.small != nullptr) {
    spans_[block.context].erase({block.small->largest(), block.range.base});
    std::erase_if(small_frees_, [&](const auto& freed) { return block.range.contains(freed.second); });
  }
  if (!Change(block, PageRun{0, block.states.size()}, PageState::kDevice)) {
    LogWarning("freed managed memory at {:#x} could not be made inaccessible", block.range.base);
  }
  block.pages->Discard(block.range);
  blocks_.erase(entry);
  count_.fetch_sub(1, std::memory_order_release);
}

bool ManagedMemory::Remove(uint64_t base, Removed* removed) {
  if (!any()) return false;
  return OnService(mutex_, [&] {
    const Block* const found = Find(base);
    if (found == nullptr || !found->container.is_null()) return false;
    const auto entry = blocks_.find(found->range.base);
    Block& block = entry->second;
    if (block.small == nullptr && base != block.range.base) return false;
    if (block.small != nullptr) {
      const std::optional<Range> small = block.small->Find(base);
      if (!small || small->base != base || block.small_freeing.contains(base)) return false;
      block.small_attached.erase(base);
      if (block.small->count() > 1) {
        block.small_freeing.insert(base);
        removed->number = ++last_free_;
        small_frees_.emplace(removed->number, base);
        return true;
      }
    }
    removed->freed_by = block.freed_by;
    Drop(entry);
    return true;
  });
}

std::vector<uint64_t> ManagedMemory::EndFrees(uint64_t number) {
  return OnService(mutex_, [&] {
    std::vector<uint64_t> empty;
    while (!small_frees_.empty() && small_frees_.begin()->first <= number) {
      const uint64_t base = small_frees_.begin()->second;
      small_frees_.erase(small_frees_.begin());
      Block& span = *Find(base);
      span.small_freeing.erase(base);
      FreeSmallHere(span, base);
      if (span.small->count() != 0) continue;
      empty.push_back(span.freed_by);
      Drop(blocks_.find(span.range.base));
    }
    return empty;
  });
}

void ManagedMemory::RemoveVariables(HandleId container) {
  if (!any()) return;
  ServiceThreads::Process().common().Run([&] {
    MutexLock lock(mutex_);
    for (auto it = blocks_.begin(); it != blocks_.end();) {
      const auto next = std::next(it);
      if (it->second.container == container) Drop(it);
      it = next;
    }
  });
}

void ManagedMemory::EndContext(HandleId context) {
  pending_.ForgetContext(context);
  if (!any()) return;
  ServiceThreads::Process().common().Run([&] {
    MutexLock lock(mutex_);
    transfers_.EndContext(context);
    for (auto it = blocks_.begin(); it != blocks_.end();) {
      const auto next = std::next(it);
      if (it->second.context == context) Drop(it);
      it = next;
    }
    spans_.erase(context);
  });
}

ManagedMemory::Block* ManagedMemory::Find(uint64_t address) {
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  Block& block = std::prev(after)->second;
  return block.range.contains(address) ? &block : nullptr;
}

template <typename Visit>
bool ManagedMemory::ForEachBlockIn(const Range& range, Visit visit) {
  for (uint64_t at = range.base; at < range.end();) {
    Block* const block = Find(at);
    if (block == nullptr) return false;
    const uint64_t end = std::min(block->range.end(), range.end());
    visit(*block, Range{at, end - at});
    at = end;
  }
  return true;
}

bool ManagedMemory::Covers(const Range& range) {
  return any() && OnService(mutex_, [&] {
           bool all = true;
           const bool known = ForEachBlockIn(range, [&](Block& block, const Range& part) {
             all = all && (block.small == nullptr || CoversSmall(block, part));
           });
           return known && all;
         });
}

bool ManagedMemory::CoversSmall(const Block& span, const Range& range) {
  for (uint64_t at = range.base; at < range.end();) {
    const std::optional<Range> small = span.small->Find(at);
    if (!small || span.small_freeing.contains(small->base)) return false;
    at = small->end();
  }
  return true;
}

CUresult ManagedMemory::Attach(uint64_t address, HandleId stream) {
  return OnService(mutex_, [&] {
    Block* const block = Find(address);
    if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
    pending_.ForEach([&](const WorkedStream& worked) {
      if (Uses(*block, worked)) block->earlier.insert(worked);
    });
    if (block->small == nullptr) {
      block->attached = stream;
    } else if (stream.is_null()) {
      block->small_attached.erase(address);
    } else {
      block->small_attached[address] = stream;
    }
    return CUDA_SUCCESS;
  });
}

void ManagedMemory::ExpectPass(const Range& range) {
  ServiceThreads::Process().common().Run([&] {
    MutexLock lock(mutex_);
    ForEachBlockIn(range, [](Block& block, const Range&) { block.states.ExpectPass(); });
  });
}

bool ManagedMemory::UpdateAdvice(const Range& range, const std::function<void(Advice&)>& change) {
  if (!Covers(range)) return false;
  return OnService(mutex_, [&] {
    return ForEachBlockIn(range, [&](Block& block, const Range& part) {
      block.small_advised = true;
      block.advice.Update(part, change);
    });
  });
}

bool ManagedMemory::ForEachAdvice(const Range& range, const std::function<void(const Advice&)>& visit) {
  if (!Covers(range)) return false;
  return OnService(
      mutex_, [&] { return ForEachBlockIn(range, [&](Block& block, const Range& part) { block.advice.ForEach(part, visit); }); });
}

bool AdoptManagedVariable(BasicCall& call, const Range& range, HandleId container, HandleId context) {
  if (ManagedMemory::Of(call.session()).AddVariable(range, container, context) != CUDA_SUCCESS) {
    LogError("a managed variable of {} bytes cannot be used: the driver put it at {:#x}, where this process has something else",
             range.bytes, range.base);
    return false;
  }
  DeviceAllocation variable;
  variable.range = range;
  variable.kind = DeviceAllocation::Kind::kManaged;
  variable.container = container;
  call.session().memory().device().Add(variable);
  return true;
}

}  // namespace tessera
