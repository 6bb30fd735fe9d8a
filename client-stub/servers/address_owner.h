// Whose memory an address is, when the process has several servers: each session has its own part of the address windows, and
// what its driver places elsewhere is known to it alone (address_windows.h). Any thread.
#pragma once

#include <cstdint>

#include "client-stub/session/session.h"

namespace tessera {

struct AddressOwner {
  Session* session = nullptr;        // null: no session has memory there
  const Context* context = nullptr;  // active, and one that can use the memory; null: there is none
  bool host = false;                 // pinned or registered memory of the process
};
// Of device memory, and of pinned and registered host memory.
AddressOwner OwnerOf(uint64_t address);

// Pinned or registered memory of a session other than `session`: to that one's server it is private memory of this process.
// The address of the same byte in the application's own memory; 0: there is no such memory. `whole` becomes whether all of
// [address, address + bytes) is inside one block.
uint64_t PinnedElsewhere(const Session& session, uint64_t address, uint64_t bytes, bool* whole);

}  // namespace tessera
