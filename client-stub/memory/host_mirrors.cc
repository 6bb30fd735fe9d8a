#include "client-stub/memory/host_mirrors.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "client-stub/memory/address_search.h"
#include "client-stub/memory/deliveries.h"
#include "client-stub/session/session.h"
#include "generated/messages/service.h"
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

HostMirrors::HostMirrors(Session& session, HostMemory& memory, ShadowPool& pool, Deliveries& deliveries)
    : session_(session), memory_(memory), pool_(pool), deliveries_(deliveries), flags_([this] { SendLoneChange(); }) {
  if (!session.mirrored()) return;
  session.OnNotice(NoticeKind::kHostChanges, [this](const ReplyHeader&, std::span<const std::byte> changes) {
    if (!changes_.Apply(changes)) session_.ProtocolViolation("malformed changes of host memory");
  });
  session.OnNotice(NoticeKind::kMirrorsIdle,
                   [this](const ReplyHeader& header, std::span<const std::byte>) { flags_.Ended(header.extra); });
}

CUresult HostMirrors::Open(BasicCall& call, const HostBlock& block, uint64_t address, CUdeviceptr* device) {
  auto known = DeviceAddress(address);
  if (!known) {
    const CUresult opened = session_.mirrored() ? OpenFar(call, block) : OpenShared(call, block);
    if (opened != CUDA_SUCCESS) return opened;
    known = DeviceAddress(address);
  }
  if (!known) return call.Fail(CUDA_ERROR_INVALID_VALUE);  // freed meanwhile
  *device = *known;
  return CUDA_SUCCESS;
}

CUresult HostMirrors::OpenShared(BasicCall& call, const HostBlock& block) {
  const Range& range = block.range;
  auto mirror = std::make_shared<Mirror>();
  mirror->host = range;
  mirror->owner = block.context;
  const uint64_t offset = range.base % kPageBytes;
  if (const CUresult result = pool_.Take(call, range.bytes + 2 * kPageBytes, &mirror->shadow); result != CUDA_SUCCESS) {
    return result;
  }
  mirror->context = call.owner_context();
  mirror->device = ((mirror->shadow->address() + kPageBytes - 1) & ~(kPageBytes - 1)) + offset;
  const auto* host = reinterpret_cast<const std::byte*>(range.base);
  {
    MutexLock lock(mirror->mutex);
    mirror->last.assign(host, host + range.bytes);
    std::memcpy(reinterpret_cast<void*>(mirror->device), mirror->last.data(), range.bytes);
  }
  Insert(mirror);  // or another thread asked as well
  return CUDA_SUCCESS;
}

CUresult HostMirrors::OpenFar(BasicCall& call, const HostBlock& block) {
  MutexLock opening(opening_mutex_);
  if (DeviceAddress(block.range.base)) return CUDA_SUCCESS;  // another thread was first
  auto mirror = std::make_shared<Mirror>();
  mirror->host = block.range;
  mirror->context = call.owner_context();
  mirror->owner = block.context;
  mirror->device = block.range.base;
  const uint64_t offset = block.range.base % kPageBytes;
  const uint64_t bytes = (offset + block.range.bytes + kPageBytes - 1) & ~(kPageBytes - 1);
  deliveries_.Exclude(block.range);
  if (block.registered) {  // an address that the window has free
    const CUresult placed = memory_.PlaceAddresses(mirror->context, bytes, &mirror->device);
    if (placed != CUDA_SUCCESS) deliveries_.Admit(block.range.base);
    if (placed != CUDA_SUCCESS) return call.Fail(placed);
    mirror->device += offset;
  }
  tesseraMirrorOpenRequest request;
  request.address = mirror->device - offset;
  request.mirror_bytes = bytes;
  request.generation = ++generation_;
  CUresult result = call.SyncAs(request);
  auto* const memory = reinterpret_cast<std::byte*>(block.range.base);
  if (result == CUDA_SUCCESS && !changes_.Add(Range{mirror->device, block.range.bytes}, memory, request.generation)) {
    result = call.Fail(CUDA_ERROR_OUT_OF_MEMORY);
  }
  if (result != CUDA_SUCCESS) {
    if (block.registered) memory_.EndFree(mirror->device - offset, true);
    deliveries_.Admit(block.range.base);
    return result;
  }
  Insert(mirror);
  // Told at once: while it is not, a flag is not the only thing that changed, and a kernel that waits for it is not told.
  changes_.SendChangesOf(mirror->device, session_.host_changes_bytes_max(),
                         [this](std::span<const std::byte> changes) { return Send(changes); });
  return CUDA_SUCCESS;
}

CUresult HostMirrors::OpenSeen(BasicCall& call, std::span<const std::byte> values) {
  if (!session_.mirrored()) return CUDA_SUCCESS;
  const bool all = ForEachAddress(memory_.window(), values, [&](uint64_t address) { return Reach(call, address) || call.ok(); });
  return all ? CUDA_SUCCESS : call.result();
}

bool HostMirrors::Reach(BasicCall& call, uint64_t address) {
  if (!session_.mirrored() || !memory_.InWindow(address)) return false;
  if (HostAddress(address)) return true;
  const auto block = memory_.Find(address);
  CUdeviceptr device = 0;
  return block && !block->shared && Open(call, *block, address, &device) == CUDA_SUCCESS;
}

bool HostMirrors::Insert(const std::shared_ptr<Mirror>& mirror) {
  MutexLock lock(mutex_);
  const bool inserted = mirrors_.emplace(mirror->host.base, mirror).second;
  count_.store(mirrors_.size(), std::memory_order_release);
  return inserted;
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

void HostMirrors::Close(BasicCall& call, uint64_t base) {
  const std::shared_ptr<Mirror> mirror = Take(base);
  if (mirror == nullptr) return;
  if (!session_.mirrored()) {
    ReconcileOne(*mirror);
    return;
  }
  changes_.Remove(mirror->device);
  deliveries_.Admit(base);
  tesseraMirrorCloseRequest request;
  request.address = mirror->device & ~(kPageBytes - 1);
  // A mirror that the server could not close is replaced by the next one at its address.
  if (call.SyncAs(request) != CUDA_SUCCESS && call.session().gone()) return;
  if (mirror->device != mirror->host.base) memory_.EndFree(request.address, true);
}

void HostMirrors::EndContext(HandleId context) {
  MutexLock lock(mutex_);
  std::erase_if(mirrors_, [&](const auto& entry) {
    const Mirror& mirror = *entry.second;
    if (mirror.context != context && mirror.owner != context) return false;
    if (session_.mirrored()) changes_.Remove(mirror.device);
    deliveries_.Admit(mirror.host.base);
    return true;
  });
  count_.store(mirrors_.size(), std::memory_order_release);
}

void HostMirrors::EndAll() {
  std::map<uint64_t, std::shared_ptr<Mirror>> ended;
  {
    MutexLock lock(mutex_);
    ended.swap(mirrors_);
    count_.store(0, std::memory_order_release);
  }
  changes_.RemoveAll();
  for (const auto& [base, mirror] : ended) {
    MutexLock lock(mirror->mutex);
    mirror->last.clear();
  }
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
  Reconcile(reinterpret_cast<std::byte*>(mirror.host.base), reinterpret_cast<std::byte*>(mirror.device), mirror.last.data(),
            mirror.last.size());
}

void HostMirrors::ReconcileAll() {
  if (!any() || session_.mirrored()) return;
  std::vector<std::shared_ptr<Mirror>> mirrors;
  {
    MutexLock lock(mutex_);
    for (const auto& [base, mirror] : mirrors_) mirrors.push_back(mirror);
  }
  for (const auto& mirror : mirrors) ReconcileOne(*mirror);
}

void HostMirrors::ReconcileForStream() {
  if (!session_.mirrored()) return ReconcileAll();
  changes_.SendChanges(session_.host_changes_bytes_max(), [this](std::span<const std::byte> changes) { return Send(changes); });
}

void HostMirrors::SendLoneChange() {
  changes_.SendLoneChange([this](std::span<const std::byte> change) { return Send(change); });
}

bool HostMirrors::Send(std::span<const std::byte> changes) {
  if (session_.SendHostChanges(changes) != CUDA_SUCCESS) return false;
  told_.fetch_add(1, std::memory_order_release);
  return true;
}

CUresult HostMirrors::Tell(BasicCall& call) {
  if (!any() || !session_.mirrored()) return CUDA_SUCCESS;
  ReconcileForStream();
  // Changes take another ring than what must not run before them. What another thread has told is named by whoever of the two
  // gets here first, hence the lock around the append.
  MutexLock lock(order_mutex_);
  tesseraHostChangesToldRequest request;
  request.messages = told_.load(std::memory_order_acquire);
  if (request.messages == ordered_) return CUDA_SUCCESS;
  const CUresult result = call.AsyncAs(request);
  if (result == CUDA_SUCCESS) ordered_ = request.messages;
  return result;
}

CUresult HostMirrors::NoteUse(BasicCall& call, HandleId stream) {
  tesseraMirrorsUsedRequest request;
  request.stream = stream;
  flags_.Began();
  return call.AsyncAs(request);
}

}  // namespace tessera
