// Addresses that a driver chooses by itself (pools, graph memory) have to differ between the servers of one client process:
// there an address is the memory of one of them (client-stub/process/address_windows.h). Drivers of one version choose alike,
// from the same place upwards. So the worker of a later session takes the first places away from its driver, a stretch for each
// session before it. Where the driver does not go along nothing changes: the client refuses what it cannot tell apart.
#pragma once

#include <cstdint>

#include "generated/driver_table.h"

namespace tessera {

// Of the session with this index in its client process. The driver is initialised; once, before it allocates.
void LeavePlacesToEarlierSessions(const DriverTable& driver, uint32_t session_index);

}  // namespace tessera
