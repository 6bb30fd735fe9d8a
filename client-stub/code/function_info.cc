#include "client-stub/code/function_info.h"

#include <algorithm>

namespace tessera {

void LaunchEnvelope::Accept(uint32_t threads, uint32_t shared_bytes) {
  // The two limits were accepted together; growing each alone would claim a combination nobody tried.
  const uint32_t known_threads = threads_.load(std::memory_order_relaxed);
  const uint32_t known_shared = shared_bytes_.load(std::memory_order_relaxed);
  if (threads >= known_threads && shared_bytes >= known_shared) {
    threads_.store(threads, std::memory_order_relaxed);
    shared_bytes_.store(shared_bytes, std::memory_order_relaxed);
  } else if (known_threads == 0) {
    threads_.store(threads, std::memory_order_relaxed);
    shared_bytes_.store(shared_bytes, std::memory_order_relaxed);
  }
}

void LaunchEnvelope::Reset() {
  threads_.store(0, std::memory_order_relaxed);
  shared_bytes_.store(0, std::memory_order_relaxed);
}

bool AcceptedLaunches::Contains(uint64_t hash) const {
  for (const auto& known : hashes_) {
    if (known.load(std::memory_order_relaxed) == hash) return true;
  }
  return false;
}

void AcceptedLaunches::Add(uint64_t hash) {
  for (auto& place : hashes_) {
    uint64_t none = 0;
    if (place.compare_exchange_strong(none, hash, std::memory_order_relaxed) || none == hash) return;
  }
  hashes_[hash % kKept].store(hash, std::memory_order_relaxed);
}

void AcceptedLaunches::Reset() {
  for (auto& place : hashes_) place.store(0, std::memory_order_relaxed);
}

std::optional<int64_t> QueryCache::Find(const Key& key) const {
  MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  return found->second;
}

void QueryCache::Insert(const Key& key, int64_t value) {
  MutexLock lock(mutex_);
  if (entries_.size() >= kEntriesMax) entries_.clear();
  entries_[key] = value;
}

void QueryCache::Clear() {
  MutexLock lock(mutex_);
  entries_.clear();
}

bool FunctionInfo::Shared::AlreadySet(int attribute, int device, int value) const {
  MutexLock lock(set_mutex_);
  const auto found = set_.find({attribute, device});
  return found != set_.end() && found->second == value;
}

void FunctionInfo::Shared::RememberSet(int attribute, int device, int value) {
  {
    MutexLock lock(set_mutex_);
    // A function's attributes and its kernel's are the same: what was set through one is not known for the other.
    std::erase_if(set_, [&](const auto& entry) { return entry.first.first == attribute && entry.first.second != device; });
    set_[{attribute, device}] = value;
  }
  queries.Clear();
  plain.Reset();
  accepted.Reset();
}

void FunctionInfo::SetLayout(std::span<const uint32_t> offsets_and_sizes) {
  layout.clear();
  parameter_bytes = 0;
  gaps = false;
  for (size_t i = 0; i + 1 < offsets_and_sizes.size(); i += 2) {
    layout.push_back({offsets_and_sizes[i], offsets_and_sizes[i + 1]});
    if (offsets_and_sizes[i] != parameter_bytes) gaps = true;
    parameter_bytes = std::max(parameter_bytes, offsets_and_sizes[i] + offsets_and_sizes[i + 1]);
  }
}

FunctionInfo* FunctionTable::Find(HandleId handle) const {
  MutexLock lock(mutex_);
  const auto found = by_handle_.find(handle.value());
  return found == by_handle_.end() ? nullptr : found->second.get();
}

FunctionInfo* FunctionTable::Insert(std::unique_ptr<FunctionInfo> info) {
  MutexLock lock(mutex_);
  auto [entry, inserted] = by_handle_.try_emplace(info->handle.value(), nullptr);
  if (inserted) {
    entry->second = std::move(info);
    if (const auto context = contexts_.find(entry->second->container.value()); context != contexts_.end()) {
      entry->second->context = context->second;
    }
    if (entry->second->described) MakeFindable(entry->second.get());
  }
  return entry->second.get();
}

void FunctionTable::NoteContext(HandleId container, HandleId context) {
  MutexLock lock(mutex_);
  contexts_[container.value()] = context;
}

HandleId FunctionTable::ContextOf(HandleId container) const {
  MutexLock lock(mutex_);
  const auto found = contexts_.find(container.value());
  return found == contexts_.end() ? HandleId() : found->second;
}

void FunctionTable::MakeFindable(FunctionInfo* info) {
  by_name_.try_emplace({info->container.value(), info->name}, info);
  // Everything about it is written.
  described_.Insert(info->handle, [info](Described& entry) { entry.info.store(info, std::memory_order_release); });
}

void FunctionTable::Describe(FunctionInfo* info, std::string_view name, std::span<const uint32_t> offsets_and_sizes,
                             uint32_t max_threads, uint32_t max_shared_bytes) {
  MutexLock lock(mutex_);
  if (info->described) return;
  info->name = std::string(name);
  info->SetLayout(offsets_and_sizes);
  if (max_threads > 0) info->shared->plain.Accept(max_threads, max_shared_bytes);
  info->described = true;
  MakeFindable(info);
}

std::vector<HandleId> FunctionTable::OfContainer(HandleId container) const {
  std::vector<HandleId> handles;
  MutexLock lock(mutex_);
  for (const auto& [value, info] : by_handle_) {
    if (info->container.value() == container.value()) handles.push_back(info->handle);
  }
  return handles;
}

std::vector<HandleId> FunctionTable::EraseContainer(HandleId container) {
  std::vector<HandleId> erased;
  MutexLock lock(mutex_);
  contexts_.erase(container.value());
  for (auto entry = by_handle_.begin(); entry != by_handle_.end();) {
    if (entry->second->container.value() != container.value()) {
      ++entry;
      continue;
    }
    erased.push_back(entry->second->handle);
    described_.Erase(entry->second->handle);
    graveyard_.push_back(std::move(entry->second));
    entry = by_handle_.erase(entry);
  }
  std::erase_if(by_name_, [&](const auto& entry) { return entry.first.first == container.value(); });
  for (HandleId handle : erased) {
    std::erase_if(of_kernel_, [&](const auto& entry) {
      return entry.first.first == handle.value() || entry.second.value() == handle.value();
    });
  }
  if (graveyard_.size() > kGraveyardMax) graveyard_.erase(graveyard_.begin(), graveyard_.end() - kGraveyardMax);
  return erased;
}

FunctionInfo* FunctionTable::FindByName(HandleId container, const std::string& name) const {
  MutexLock lock(mutex_);
  const auto found = by_name_.find({container.value(), name});
  return found == by_name_.end() ? nullptr : found->second;
}

HandleId FunctionTable::FindOfKernel(HandleId kernel, HandleId context) const {
  MutexLock lock(mutex_);
  const auto found = of_kernel_.find({kernel.value(), context.value()});
  return found == of_kernel_.end() ? HandleId() : found->second;
}

void FunctionTable::RememberOfKernel(HandleId kernel, HandleId context, HandleId function) {
  MutexLock lock(mutex_);
  of_kernel_[{kernel.value(), context.value()}] = function;
}

}  // namespace tessera
