#include "client-stub/memory/client_memory.h"

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/memory/address_windows.h"
#include "client-stub/servers/address_owner.h"
#include "client-stub/session/session.h"
#include "client-stub/session/thread_state.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"

namespace tessera {

ClientMemory::ClientMemory(Session& session)
    : session_(session),
      windows_(SessionWindows(session.window_row(), static_cast<int>(session.index()))),
      host_(session.channel(), windows_.host),
      staging_(session.channel().staging()),
      shadows_(host_),
      deliveries_(session),
      mirrors_(session, host_, shadows_),
      pools_(session.marks(), host_),
      allocations_(host_),
      managed_(session, windows_.device) {
  session.contexts().OnEnd([this](const Context& context) {
    device_.RemoveContext(context.handle);
    managed_.EndContext(context.handle);
    deliveries_.EndContext(context.handle);
    mirrors_.EndContext(context.handle);
    shadows_.EndContext(context.handle);
    pools_.EndContext(context.handle);
    host_.EndContext(context.handle);
  });
}

ClientMemory& ClientMemory::Of(Session& session) {
  if (ClientMemory* memory = session.memory()) [[likely]]
    return *memory;
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::vector<std::unique_ptr<ClientMemory>>;  // never destroyed, as sessions
  std::lock_guard lock(*mutex);
  if (session.memory() == nullptr) {
    all->push_back(std::unique_ptr<ClientMemory>(new ClientMemory(session)));
    session.set_memory(all->back().get());
  }
  return *session.memory();
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
  ClientMemory::Of(session).device().Add(allocation);
  return true;
}

bool AdoptGlobal(Call& call, const Range& range, HandleId container) {
  DeviceAllocation global;
  global.container = container;
  global.range = range;
  global.kind = DeviceAllocation::Kind::kGlobal;
  global.context = call.owner_context();
  if (const Context* context = call.current_context()) global.device = context->device;
  return AdoptDriverRange(call.session(), global);
}

bool AdoptManagedVariable(Call& call, const Range& range, HandleId container, HandleId context) {
  ClientMemory& memory = ClientMemory::Of(call.session());
  if (memory.managed().AddVariable(range, container, context) != CUDA_SUCCESS) {
    LogError("a managed variable of {} bytes cannot be used: the driver put it at {:#x}, where this process has something else",
             range.bytes, range.base);
    return false;
  }
  DeviceAllocation variable;
  variable.range = range;
  variable.kind = DeviceAllocation::Kind::kManaged;
  variable.container = container;
  memory.device().Add(variable);
  return true;
}

}  // namespace tessera
