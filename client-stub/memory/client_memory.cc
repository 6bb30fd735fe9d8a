#include "client-stub/memory/client_memory.h"

#include <map>
#include <shared_mutex>
#include <utility>

#include "client-stub/process/address_windows.h"
#include "client-stub/session/basic_call.h"
#include "client-stub/session/client.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"

namespace tessera {
namespace {

const Context* Active(Session& session, HandleId handle, CUdevice device) {
  const Context* context = session.contexts().Find(reinterpret_cast<CUcontext>(handle.value()));
  return context != nullptr && context->active() ? context : session.contexts().AnyActive(device);
}

}  // namespace

ClientMemory::ClientMemory(Session& session)
    : session_(session),
      windows_(SessionWindows(session.window_row(), static_cast<int>(session.index()))),
      host_(session.channel(), windows_.host),
      staging_(session.channel().staging()),
      shadows_(host_),
      deliveries_(session),
      mirrors_(session, host_, shadows_, deliveries_),
      pools_(session.marks(), host_),
      allocations_(host_) {}

void ClientMemory::EndProcess() {
  mirrors_.EndAll();
  deliveries_.Forget(Range{0, UINT64_MAX});
}

void ClientMemory::EndContext(HandleId context) {
  device_.RemoveContext(context);
  deliveries_.EndContext(context);
  mirrors_.EndContext(context);
  shadows_.EndContext(context);
  pools_.EndContext(context);
  host_.EndContext(context);
}

uint64_t ClientMemory::TranslateElsewhere(uint64_t address) const {
  bool whole = false;
  const uint64_t original = PinnedElsewhere(session_, address, 1, &whole);
  return original != 0 ? original : address;
}

Place ClientMemory::Classify(uint64_t address, uint64_t bytes) const {
  address = Translate(address);
  if (host_.InWindow(address) || host_.any_outside()) {
    if (const auto block = host_.Find(address)) {
      if (block->mapped) return ClassifyMapping(*block, address, bytes);
      if (!block->range.contains(block->alias != 0 ? host_.OriginalOf(address) : address, bytes)) return Place::kInvalid;
      return block->shared ? Place::kPinned : Place::kPrivate;
    }
    if (host_.InWindow(address)) return Place::kInvalid;
  }
  if (device_.Covers(address, bytes)) return Place::kDevice;
  if (windows_.device.contains(address) || AddressWindows::Process().IsDriverRange(address) || reservations_.Contains(address)) {
    return Place::kInvalid;
  }
  if (!SeveralServers()) return Place::kPageable;
  // What another server has pinned is private memory to this one, and what its devices have is no memory at all.
  bool whole = false;
  if (PinnedElsewhere(session_, address, bytes, &whole) != 0) return whole ? Place::kPrivate : Place::kInvalid;
  return OwnerOf(address).session == nullptr ? Place::kPageable : Place::kInvalid;
}

Place ClientMemory::ClassifyMapping(const HostBlock& block, uint64_t address, uint64_t bytes) {
  if (!block.range.contains(address, bytes)) return Place::kInvalid;
  if (block.shared && block.host_access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return Place::kPinned;
  if (block.shared) return Place::kDevice;  // the server copies what the program cannot
  return block.host_access == CU_MEM_ACCESS_FLAGS_PROT_NONE ? Place::kInvalid : Place::kPageable;
}

void ClientMemory::NoteAllocation(HandleId handle, const Physical& physical) {
  MutexLock lock(mutex_);
  physical_[handle.value()] = physical;
}

bool ClientMemory::RetainAllocation(HandleId handle) {
  MutexLock lock(mutex_);
  const auto found = physical_.find(handle.value());
  if (found == physical_.end()) return false;
  ++found->second.references;
  return true;
}

bool ClientMemory::ReleaseAllocation(HandleId handle) {
  MutexLock lock(mutex_);
  const auto found = physical_.find(handle.value());
  if (found != physical_.end() && --found->second.references != 0) return false;
  if (found != physical_.end()) physical_.erase(found);
  return true;
}

ClientMemory::Physical ClientMemory::AllocationOf(HandleId handle) {
  MutexLock lock(mutex_);
  const auto found = physical_.find(handle.value());
  return found == physical_.end() ? Physical{} : found->second;
}

bool AdoptDriverRange(Session& session, const DeviceAllocation& allocation) {
  if (!AddressWindows::Process().ReserveDriverRange(allocation.range.base, allocation.range.bytes, session.index())) {
    return false;
  }
  session.memory().device().Add(allocation);
  return true;
}

bool AdoptGlobal(BasicCall& call, const Range& range, HandleId container) {
  DeviceAllocation global;
  global.container = container;
  global.range = range;
  global.kind = DeviceAllocation::Kind::kGlobal;
  global.context = call.owner_context();
  if (const Context* context = call.current_context()) global.device = context->device;
  return AdoptDriverRange(call.session(), global);
}

AddressOwner OwnerOf(uint64_t address) {
  for (Session* session : Client::Get().sessions()) {
    ClientMemory& memory = session->memory();
    if (const auto allocation = memory.device().Find(address)) {
      return {session, Active(*session, allocation->context, allocation->device), false};
    }
    if (const auto block = memory.host().Find(memory.Original(address))) {
      return {session, Active(*session, block->context, block->device), true};
    }
    // Addresses that are nobody's memory now: reserved, or freed.
    if (memory.windows().device.contains(address) || memory.reservations().Contains(address)) {
      return {session, session->contexts().AnyActive(-1), false};
    }
  }
  return {};
}

uint64_t PinnedElsewhere(const Session& session, uint64_t address, uint64_t bytes, bool* whole) {
  for (Session* other : Client::Get().sessions()) {
    if (other == &session) continue;
    ClientMemory& memory = other->memory();
    const uint64_t original = memory.Original(address);
    const auto block = memory.host().Find(original);
    if (!block || block->host_access != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) continue;  // this process copies it
    *whole = block->range.contains(original, bytes);
    return original;
  }
  return 0;
}

}  // namespace tessera
