#include "client-stub/client_memory.h"

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "client-stub/address_windows.h"
#include "client-stub/session.h"
#include "client-stub/thread_state.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"

namespace tessera {

ClientMemory::ClientMemory(Session& session)
    : windows_(SessionWindows(session.window_row(), static_cast<int>(session.index()))),
      host_(session.channel(), windows_.host),
      staging_(session.channel().staging()),
      shadows_(host_),
      mirrors_(session, host_, shadows_),
      managed_(session, windows_.device) {
  session.contexts().OnEnd([this](const Context& context) {
    device_.RemoveContext(context.handle);
    managed_.EndContext(context.handle);
    mirrors_.EndContext(context.handle);
    shadows_.EndContext(context.handle);
    host_.EndContext(context.handle);
  });
}

ClientMemory& ClientMemory::Of(Session& session) {
  // A process has one session, tests have several in turn, so the last one found is nearly always the one asked for. The
  // session's number tells a new session at the address of an old one apart.
  struct Entry {
    Session* session;
    uint64_t id;
    std::unique_ptr<ClientMemory> memory;
  };
  static std::atomic<Entry*> last{nullptr};
  static auto* const mutex = new std::mutex;
  static auto* const entries = new std::map<std::pair<Session*, uint64_t>, Entry*>;
  const uint64_t id = session.welcome().session_id;
  if (Entry* entry = last.load(std::memory_order_acquire);
      entry != nullptr && entry->session == &session && entry->id == id) {
    return *entry->memory;
  }
  std::lock_guard lock(*mutex);
  Entry*& entry = (*entries)[{&session, id}];
  if (entry == nullptr) {
    entry = new Entry{&session, id, std::unique_ptr<ClientMemory>(new ClientMemory(session))};
  }
  last.store(entry, std::memory_order_release);
  return *entry->memory;
}

Place ClientMemory::Classify(uint64_t address, uint64_t bytes) const {
  address = Translate(address);
  if (host_.InWindow(address) || host_.any_registered()) {
    if (const auto block = host_.Find(address)) {
      if (!block->range.contains(block->alias != 0 ? host_.OriginalOf(address) : address, bytes)) return Place::kInvalid;
      return block->shared ? Place::kPinned : Place::kPrivate;
    }
    if (host_.InWindow(address)) return Place::kInvalid;
  }
  if (device_.Covers(address, bytes)) return Place::kDevice;
  if (windows_.device.contains(address) || device_.Find(address)) return Place::kInvalid;
  return Place::kPageable;
}

void ClientMemory::NoteAllocation(HandleId handle, const Physical& physical) {
  MutexLock lock(mutex_);
  physical_[handle.value()] = physical;
}

void ClientMemory::ForgetAllocation(HandleId handle) {
  MutexLock lock(mutex_);
  physical_.erase(handle.value());
}

ClientMemory::Physical ClientMemory::AllocationOf(HandleId handle) {
  MutexLock lock(mutex_);
  const auto found = physical_.find(handle.value());
  return found == physical_.end() ? Physical{} : found->second;
}

bool AdoptDriverRange(Session& session, const DeviceAllocation& allocation) {
  if (!AddressWindows::Process().ReserveDriverRange(allocation.range.base, allocation.range.bytes)) return false;
  ClientMemory::Of(session).device().Add(allocation);
  return true;
}

bool AdoptGlobal(Call& call, const Range& range) {
  DeviceAllocation global;
  global.range = range;
  global.kind = DeviceAllocation::Kind::kGlobal;
  global.context = call.owner_context();
  if (const Context* context = call.thread().current()) global.device = context->device;
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
  memory.device().Add(variable);
  return true;
}

void ForgetDriverRange(Session& session, uint64_t base) { ClientMemory::Of(session).device().Remove(base); }

}  // namespace tessera
