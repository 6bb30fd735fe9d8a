#include <stdio.h>

#include <algorithm>

#include "server/emulator/driver/core/pace.h"
#include "server/emulator/driver/core/state.h"
#include "server/emulator/driver/device/device_attributes.h"

namespace tessera::emulator {
namespace {

std::function<void()> WorkOf(ContextPtr owner, CommandPtr command) {
  return [owner = std::move(owner), command = std::move(command)] {
    Context& context = *owner;
    Pace(context, *command);
    if (context.cancelled()) return command->Skip(context);
    const CUresult result = command->Execute(context);
    if (result != CUDA_SUCCESS) context.Fail(result);
  };
}

}  // namespace

Context::Context(Driver& driver, Device* device, unsigned flags_, bool primary, uint64_t handle)
    : flags(flags_),
      device_(device),
      primary_(primary),
      multiprocessors_(kMultiprocessors),
      id_(driver.next_context_id.fetch_add(1)),
      handle_(handle),
      memory_map_(this),
      local_memory_(*device_) {
  legacy_ = std::make_shared<Stream>(driver.threads, handle, Stream::Type::kLegacy, 0, driver.next_stream_id.fetch_add(1));
  limits = {{CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20},
            {CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20},
            {CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2},
            {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
            {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 128},
            {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0},
            {CU_LIMIT_CIG_ENABLED, 0}};
}

Context::Context(const ContextPtr& primary, int multiprocessors, uint64_t handle)
    : flags(primary->flags),
      device_(primary->device_),
      primary_(false),
      parent_(primary),
      multiprocessors_(multiprocessors),
      id_(GetDriver().next_context_id.fetch_add(1)),
      handle_(handle),
      memory_map_(this),
      local_memory_(*device_) {
  legacy_ = MakeStream(Stream::Type::kLegacy, 0);
  std::lock_guard lock(primary->settings_mutex);
  limits = primary->limits;
}

Context::~Context() = default;

bool Context::Activate() {
  const uint64_t bytes = green() ? 0 : GetOptions().context_bytes;
  if (bytes != 0 && !device_->Charge(bytes)) return false;
  active_ = true;
  return true;
}

StreamPtr Context::MakeStream(Stream::Type type, int priority) const {
  return std::make_shared<Stream>(GetDriver().threads, handle_, type, priority, GetDriver().next_stream_id.fetch_add(1));
}

void Context::Fail(CUresult error) {
  if (parent_ != nullptr) return parent_->Fail(error);
  int none = 0;
  sticky_.compare_exchange_strong(none, error);
  cancel_ = true;
}

FencePtr Context::Submit(const StreamPtr& stream, CommandPtr command, std::vector<FencePtr> after) {
  auto fence = std::make_shared<Fence>();
  std::lock_guard lock(order_mutex_);
  auto wait_for = [&after](const StreamPtr& other) {
    FencePtr tail = other->tail();
    if (tail != nullptr && !tail->done()) after.push_back(std::move(tail));
  };
  if (stream->is_legacy()) {
    for (const StreamPtr& other : StreamsLocked()) {
      if (other->type() == Stream::Type::kBlocking) wait_for(other);
    }
  } else if (stream->type() == Stream::Type::kBlocking) {
    wait_for(legacy_);
  }
  std::erase_if(held_back_, [](const FencePtr& gate) { return gate->done(); });
  after.insert(after.end(), held_back_.begin(), held_back_.end());
  stream->Append(WorkOf(shared_from_this(), std::move(command)), std::move(after), fence);
  return fence;
}

std::vector<ContextPtr> Context::Greens() const {
  std::vector<ContextPtr> greens;
  if (!primary_) return greens;
  for (const ContextPtr& other : GetDriver().contexts.All()) {
    if (other->parent_.get() == this && other->active()) greens.push_back(other);
  }
  return greens;
}

FencePtr Context::SubmitAside(CommandPtr command, std::vector<FencePtr> after) {
  // On a stream of its own, which no other work waits for.
  auto fence = std::make_shared<Fence>();
  const auto aside = MakeStream(Stream::Type::kNonBlocking, 0);
  aside->Append(WorkOf(shared_from_this(), std::move(command)), std::move(after), fence);
  return fence;
}

FencePtr Context::SubmitAfterAll(CommandPtr command) {
  std::vector<FencePtr> tails;
  std::vector<ContextPtr> all = Greens();
  all.push_back(shared_from_this());
  for (const ContextPtr& context : all) {
    for (const StreamPtr& stream : context->streams()) {
      if (FencePtr tail = stream->tail()) tails.push_back(std::move(tail));
    }
  }
  return SubmitAside(std::move(command), std::move(tails));
}

void Context::HoldBack(const FencePtr& fence) {
  for (const ContextPtr& green : Greens()) green->HoldBack(fence);
  std::lock_guard lock(order_mutex_);
  held_back_.push_back(fence);
}

bool Context::HoldsBack() const {
  std::lock_guard lock(order_mutex_);
  return std::any_of(held_back_.begin(), held_back_.end(), [](const FencePtr& gate) { return !gate->done(); });
}

StreamPtr Context::PerThread() {
  std::lock_guard lock(order_mutex_);
  StreamPtr& stream = per_thread_[std::this_thread::get_id()];
  if (stream == nullptr) {
    stream = MakeStream(Stream::Type::kBlocking, 0);
  }
  return stream;
}

StreamPtr Context::CreateStream(Stream::Type type, int priority) {
  if (green()) type = Stream::Type::kNonBlocking;  // natively so
  auto stream = MakeStream(type, priority);
  stream->handle = GetDriver().streams.Mint();
  {
    std::lock_guard lock(order_mutex_);
    streams_.push_back(stream);
  }
  GetDriver().streams.Put(stream->handle, stream);
  return stream;
}

void Context::ForgetStream(const StreamPtr& stream) {
  // Its queued work still runs, and the legacy stream must still wait for it: a busy one is forgotten by a later call.
  stream->destroyed = true;
  std::lock_guard lock(order_mutex_);
  std::erase_if(streams_, [](const StreamPtr& other) {
    const FencePtr tail = other->tail();
    return other->destroyed && (tail == nullptr || tail->done());
  });
}

std::vector<StreamPtr> Context::StreamsLocked() const {
  std::vector<StreamPtr> all = streams_;
  for (const auto& [thread, stream] : per_thread_) all.push_back(stream);
  return all;
}

std::vector<StreamPtr> Context::streams() const {
  std::lock_guard lock(order_mutex_);
  std::vector<StreamPtr> all = StreamsLocked();
  all.push_back(legacy_);
  return all;
}

CUresult Context::Synchronize() {
  for (const ContextPtr& green : Greens()) green->Synchronize();
  for (const StreamPtr& stream : streams()) {
    if (FencePtr tail = stream->tail()) tail->Wait();
  }
  FlushPrint();
  return sticky();
}

CUresult Context::WaitFor(const FencePtr& fence) {
  if (fence != nullptr) fence->Wait();
  FlushPrint();
  return sticky();
}

void Context::Stop() {
  active_ = false;
  cancel_ = true;
  Synchronize();
}

void Context::Clear() {
  Driver& driver = GetDriver();
  for (const AllocationPtr& allocation : driver.memory.RemoveIf([&](const Allocation& candidate) {
         return candidate.context == handle_ && (candidate.kind == MemoryKind::kDevice || candidate.is_host());
       })) {
    driver.memory.RetirePages(allocation->base, allocation->mapped_bytes);
    if (allocation->kind == MemoryKind::kDevice) device_->Discharge(allocation->mapped_bytes);
  }
  {
    std::lock_guard lock(heap_mutex_);
    for (const auto& [base, mapped_bytes] : heap_) {
      driver.memory.Remove(base);
      driver.memory.RetirePages(base, mapped_bytes);
      device_->Discharge(mapped_bytes);
    }
    heap_.clear();
    heap_used_bytes_ = 0;
  }
  if (!green()) {
    local_memory_.Clear();
    device_->Discharge(GetOptions().context_bytes);
  }
  std::lock_guard lock(order_mutex_);
  streams_.clear();
  per_thread_.clear();
}

bool Context::MayAccess(const Allocation& allocation, bool* writable) const {
  const uint32_t mine = 1u << device_->number();
  switch (allocation.kind) {
    case MemoryKind::kDevice:
    case MemoryKind::kGlobal: {
      *writable = true;
      if (allocation.device == device_->number()) return true;
      std::lock_guard lock(settings_mutex);
      return parent_ == nullptr && peers.contains(allocation.context);
    }
    case MemoryKind::kManaged: *writable = true; return true;
    case MemoryKind::kPool:
    case MemoryKind::kGraph:
    case MemoryKind::kMapped: *writable = (allocation.write_mask & mine) != 0; return (allocation.read_mask & mine) != 0;
    case MemoryKind::kHost:
    case MemoryKind::kRegistered:
      *writable = (allocation.host_flags & CU_MEMHOSTREGISTER_READ_ONLY) == 0 || allocation.kind == MemoryKind::kHost;
      return true;
  }
  return false;
}

bool ContextMemoryMap::Find(uint64_t address, MemoryRange* range) {
  MemoryTable& table = GetDriver().memory;
  const AllocationPtr found = table.Find(address);
  if (found == nullptr) return false;
  const Allocation allocation = table.Snapshot(found);
  bool writable = false;
  if (allocation.absent || !context_->MayAccess(allocation, &writable)) return false;
  range->begin = allocation.base;
  range->end = allocation.end();
  range->writable = writable;
  // Neighbouring mappings of one reserved range are one range to a kernel.
  if (allocation.kind == MemoryKind::kMapped) {
    while (true) {
      const AllocationPtr next = table.Find(range->end);
      bool next_writable = false;
      if (next == nullptr || next->kind != MemoryKind::kMapped) break;
      const Allocation next_allocation = table.Snapshot(next);
      if (!context_->MayAccess(next_allocation, &next_writable) || next_writable != writable) break;
      range->end = next_allocation.end();
    }
  }
  return true;
}

void Context::Print(std::string_view text) {
  size_t capacity;
  {
    std::lock_guard lock(settings_mutex);
    capacity = limits[CU_LIMIT_PRINTF_FIFO_SIZE];
  }
  std::lock_guard lock(print_mutex_);
  print_text_.append(text);
  // The device's FIFO wraps: the oldest text is lost.
  if (print_text_.size() > capacity) print_text_.erase(0, print_text_.size() - capacity);
}

void Context::FlushPrint() {
  std::string text;
  {
    std::lock_guard lock(print_mutex_);
    if (print_text_.empty()) return;
    text.swap(print_text_);
  }
  fwrite(text.data(), 1, text.size(), stdout);
  fflush(stdout);
}

uint64_t Context::Allocate(uint64_t size_bytes) {
  if (size_bytes == 0) return 0;
  size_t capacity;
  {
    std::lock_guard lock(settings_mutex);
    capacity = limits[CU_LIMIT_MALLOC_HEAP_SIZE];
  }
  const uint64_t mapped_bytes = (size_bytes + kPageBytes - 1) & ~(kPageBytes - 1);
  std::lock_guard lock(heap_mutex_);
  if (size_bytes > capacity || heap_used_bytes_ + size_bytes > capacity || !device_->Charge(mapped_bytes)) return 0;
  auto allocation = std::make_shared<Allocation>();
  allocation->base = MemoryTable::MapPages(mapped_bytes, true);
  if (allocation->base == 0) {
    device_->Discharge(mapped_bytes);
    return 0;
  }
  allocation->size_bytes = size_bytes;
  allocation->mapped_bytes = mapped_bytes;
  allocation->kind = MemoryKind::kGlobal;
  allocation->device = device_->number();
  allocation->context = handle_;
  GetDriver().memory.Insert(allocation);
  heap_[allocation->base] = mapped_bytes;
  heap_used_bytes_ += size_bytes;
  return allocation->base;
}

bool Context::Free(uint64_t address) {
  if (address == 0) return true;
  std::lock_guard lock(heap_mutex_);
  auto found = heap_.find(address);
  if (found == heap_.end()) return false;
  if (AllocationPtr allocation = GetDriver().memory.Remove(address)) heap_used_bytes_ -= allocation->size_bytes;
  GetDriver().memory.RetirePages(address, found->second);
  device_->Discharge(found->second);
  heap_.erase(found);
  return true;
}

CUresult HostCommand::Execute(Context& context) {
  context.FlushPrint();
  LeaveDevice();
  std::lock_guard one_at_a_time(context.host_function_mutex());
  ThreadState& thread = GetThread();
  thread.in_host_function = true;
  params_.fn(params_.userData);
  thread.in_host_function = false;
  return CUDA_SUCCESS;
}

}  // namespace tessera::emulator
