#include "client-stub/session/context.h"

#include <algorithm>

#include "client-stub/process/process_numbers.h"

namespace tessera {
CUresult LocalStorage::Put(void* key, void* value, Destructor destructor) {
  MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.key == key) return CUDA_ERROR_INVALID_HANDLE;
  }
  entries_.push_back(Entry{key, value, destructor});
  return CUDA_SUCCESS;
}

CUresult LocalStorage::Remove(void* key) {
  MutexLock lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [key](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) return CUDA_ERROR_INVALID_HANDLE;
  entries_.erase(found);
  return CUDA_SUCCESS;
}

CUresult LocalStorage::Get(void* key, void** value) {
  MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.key != key) continue;
    *value = entry.value;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_HANDLE;
}

void LocalStorage::DestroyAll(CUcontext context) {
  for (;;) {
    Entry entry;
    {
      MutexLock lock(mutex_);
      if (entries_.empty()) return;
      entry = entries_.back();
      entries_.pop_back();
    }
    if (entry.destructor != nullptr) entry.destructor(context, entry.key, entry.value);
  }
}

Context* ContextTable::Find(CUcontext context) const {
  MutexLock lock(mutex_);
  const auto found = contexts_.find(reinterpret_cast<uint64_t>(context));
  return found == contexts_.end() ? nullptr : found->second;
}

Context* ContextTable::Primary(CUdevice device) {
  MutexLock lock(mutex_);
  if (primaries_.size() <= static_cast<size_t>(device)) primaries_.resize(device + 1);
  Context*& context = primaries_[device];
  if (context == nullptr) {
    const HandleId handle = handles_.Mint(HandleKind::kContext);
    if (handle.is_null()) return nullptr;
    Context* const made = records_.emplace_back(std::make_unique<Context>()).get();
    made->handle = handle;
    made->session = &session_;
    made->device = device;
    made->primary = true;
    made->number = ProcessNumbers::Process().NextContext();
    made->api_version = kContextApiVersion;
    contexts_.emplace(handle.value(), made);
    context = made;
  }
  return context;
}

Context* ContextTable::AnyActive(CUdevice device) const {
  Context* found = nullptr;
  MutexLock lock(mutex_);
  for (const auto& [value, context] : contexts_) {
    if (!context->active() || context->parent != nullptr) continue;
    // The device's primary context is the one that most programs mean.
    const auto rank = [device](const Context& one) { return (one.device == device ? 2 : 0) + (one.primary ? 1 : 0); };
    if (found == nullptr || rank(*context) > rank(*found)) found = context;
  }
  return found;
}

Context* ContextTable::Add(HandleId handle, CUdevice device, unsigned flags, unsigned api_version) {
  auto record = std::make_unique<Context>();
  Context* const context = record.get();
  context->handle = handle;
  context->session = &session_;
  context->device = device;
  context->number = ProcessNumbers::Process().NextContext();
  context->api_version = api_version;
  context->flags.store(flags, std::memory_order_relaxed);
  context->state.store(Context::State::kActive, std::memory_order_release);
  MutexLock lock(mutex_);
  records_.push_back(std::move(record));
  contexts_.insert_or_assign(handle.value(), context);
  return context;
}

Context* ContextTable::AddGreen(HandleId handle, HandleId green, Context& primary) {
  Context* context = Add(handle, primary.device, primary.flags, kContextApiVersion);
  MutexLock lock(mutex_);
  context->green = green;
  context->parent = &primary;
  return context;
}

Context* ContextTable::FindGreen(HandleId green) const {
  MutexLock lock(mutex_);
  for (const auto& [value, context] : contexts_) {
    if (!green.is_null() && context->green == green) return context;
  }
  return nullptr;
}

std::vector<Context*> ContextTable::GreensOf(const Context& primary) const {
  std::vector<Context*> greens;
  MutexLock lock(mutex_);
  for (const auto& [value, context] : contexts_) {
    if (context->parent == &primary && context->active()) greens.push_back(context);
  }
  return greens;
}

void ContextTable::Activate(Context* context) {
  if (context->was_active) context->number = ProcessNumbers::Process().NextContext();
  context->was_active = true;
  context->sticky_error.store(CUDA_SUCCESS, std::memory_order_relaxed);
  context->state.store(Context::State::kActive, std::memory_order_release);
}

void ContextTable::Deactivate(Context* context) {
  context->state.store(context->primary ? Context::State::kInactive : Context::State::kDestroyed, std::memory_order_release);
  MutexLock lock(context->limits_mutex);
  context->limits.clear();
  context->sticky_error.store(CUDA_SUCCESS, std::memory_order_relaxed);
}

void ContextTable::Finish(Context* context) {
  std::vector<std::function<void(const Context&)>> listeners;
  {
    MutexLock lock(mutex_);
    listeners = listeners_;
  }
  for (const auto& ended : listeners) ended(*context);
  // A primary context that is reset takes its green contexts along.
  for (Context* const green : GreensOf(*context)) {
    Deactivate(green);
    handles_.Release(green->handle);
    handles_.Release(green->green);
    Finish(green);
  }
  context->storage.DestroyAll(context->object());
}

void ContextTable::OnEnd(std::function<void(const Context& context)> ended) {
  MutexLock lock(mutex_);
  listeners_.push_back(std::move(ended));
}

}  // namespace tessera
