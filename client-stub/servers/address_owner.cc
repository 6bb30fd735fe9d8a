#include "client-stub/servers/address_owner.h"

#include "client-stub/memory/client_memory.h"
#include "client-stub/session/client.h"

namespace tessera {
namespace {

const Context* Active(Session& session, HandleId handle, CUdevice device) {
  const Context* context = session.contexts().Find(reinterpret_cast<CUcontext>(handle.value()));
  return context != nullptr && context->active() ? context : session.contexts().AnyActive(device);
}

}  // namespace

AddressOwner OwnerOf(uint64_t address) {
  for (Session* session : Client::Get().sessions()) {
    ClientMemory& memory = ClientMemory::Of(*session);
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
    ClientMemory& memory = ClientMemory::Of(*other);
    const uint64_t original = memory.Original(address);
    const auto block = memory.host().Find(original);
    if (!block || block->host_access != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) continue;  // this process copies it
    *whole = block->range.contains(original, bytes);
    return original;
  }
  return 0;
}

}  // namespace tessera
