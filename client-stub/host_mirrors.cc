#include "client-stub/host_mirrors.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "client-stub/client_memory.h"
#include "client-stub/session.h"
#include "client-stub/stream_visit.h"
#include "protocol/channel/segment.h"

namespace tessera {
namespace {

constexpr size_t kBlockBytes = 4096;

// Clang's atomic operations know no std::byte.
std::byte Load(const std::byte* from) {
  return std::byte{__atomic_load_n(reinterpret_cast<const unsigned char*>(from), __ATOMIC_RELAXED)};
}
void Store(std::byte* to, std::byte value) {
  __atomic_store_n(reinterpret_cast<unsigned char*>(to), std::to_integer<unsigned char>(value), __ATOMIC_RELAXED);
}

}  // namespace

void Reconcile(std::byte* host, std::byte* device, std::byte* last, size_t bytes) {
  for (size_t begin = 0; begin < bytes; begin += kBlockBytes) {
    const size_t size = std::min(kBlockBytes, bytes - begin);
    if (std::memcmp(host + begin, last + begin, size) == 0 && std::memcmp(device + begin, last + begin, size) == 0) continue;
    // Byte by byte: neighbours of a changed byte may belong to the other side, or to somebody who writes them now.
    for (size_t i = begin; i < begin + size; ++i) {
      const std::byte from_device = Load(device + i);
      if (from_device != last[i]) {
        Store(host + i, from_device);
        last[i] = from_device;
        continue;
      }
      const std::byte from_host = Load(host + i);
      if (from_host == last[i]) continue;
      Store(device + i, from_host);
      last[i] = from_host;
    }
  }
}

CUresult HostMirrors::Open(Call& call, const Range& range, uint64_t address, CUdeviceptr* device) {
  if (const auto known = DeviceAddress(address)) {
    *device = *known;
    return CUDA_SUCCESS;
  }
  auto mirror = std::make_shared<Mirror>();
  mirror->host = range;
  const uint64_t offset = range.base % kPageBytes;
  if (const CUresult result = pool_.Take(call, range.bytes + 2 * kPageBytes, &mirror->shadow); result != CUDA_SUCCESS) {
    return result;
  }
  mirror->device = ((mirror->shadow.address + kPageBytes - 1) & ~(kPageBytes - 1)) + offset;
  const auto* host = reinterpret_cast<const std::byte*>(range.base);
  {
    MutexLock lock(mirror->mutex);
    mirror->last.assign(host, host + range.bytes);
    std::memcpy(reinterpret_cast<void*>(mirror->device), mirror->last.data(), range.bytes);
  }
  MutexLock lock(mutex_);
  const auto [entry, inserted] = mirrors_.emplace(range.base, mirror);
  if (!inserted) pool_.Return(mirror->shadow);  // another thread asked as well
  count_.store(mirrors_.size(), std::memory_order_release);
  *device = entry->second->device + (address - range.base);
  return CUDA_SUCCESS;
}

std::shared_ptr<HostMirrors::Mirror> HostMirrors::Take(uint64_t base) {
  MutexLock lock(mutex_);
  const auto found = mirrors_.find(base);
  if (found == mirrors_.end()) return nullptr;
  std::shared_ptr<Mirror> mirror = std::move(found->second);
  mirrors_.erase(found);
  count_.store(mirrors_.size(), std::memory_order_release);
  return mirror;
}

void HostMirrors::Close(uint64_t base) {
  const std::shared_ptr<Mirror> mirror = Take(base);
  if (mirror == nullptr) return;
  ReconcileOne(*mirror);
  pool_.Return(mirror->shadow);
}

void HostMirrors::EndContext(HandleId context) {
  MutexLock lock(mutex_);
  std::erase_if(mirrors_, [&](const auto& entry) { return entry.second->shadow.context == context; });
  count_.store(mirrors_.size(), std::memory_order_release);
}

std::optional<uint64_t> HostMirrors::DeviceAddress(uint64_t host) const {
  if (!any()) return std::nullopt;
  MutexLock lock(mutex_);
  auto next = mirrors_.upper_bound(host);
  if (next == mirrors_.begin()) return std::nullopt;
  const Mirror& mirror = *std::prev(next)->second;
  if (!mirror.host.contains(host)) return std::nullopt;
  return mirror.device + (host - mirror.host.base);
}

std::optional<uint64_t> HostMirrors::HostAddress(uint64_t device) const {
  if (!any()) return std::nullopt;
  MutexLock lock(mutex_);
  for (const auto& [base, mirror] : mirrors_) {
    if (Range{mirror->device, mirror->host.bytes}.contains(device)) return base + (device - mirror->device);
  }
  return std::nullopt;
}

void HostMirrors::ReconcileOne(Mirror& mirror) {
  MutexLock lock(mirror.mutex);
  Reconcile(reinterpret_cast<std::byte*>(mirror.host.base), reinterpret_cast<std::byte*>(mirror.device),
            mirror.last.data(), mirror.host.bytes);
}

void HostMirrors::ReconcileAll() {
  if (!any()) return;
  std::vector<std::shared_ptr<Mirror>> mirrors;
  {
    MutexLock lock(mutex_);
    for (const auto& [base, mirror] : mirrors_) mirrors.push_back(mirror);
  }
  for (const auto& mirror : mirrors) ReconcileOne(*mirror);
}

CUresult MeetMirrors(Call& call, HandleId stream) {
  HostMirrors& mirrors = ClientMemory::Of(call.session()).mirrors();
  if (!mirrors.any() || call.capturing()) return CUDA_SUCCESS;
  // The thread of visits reconciles around each of them: there is nothing else to do.
  return VisitStream(call, stream, [](const GoOn& go_on) { go_on(); });
}

}  // namespace tessera
