// Why a session ends, beside what the rows of its gate page say: in GatePage::caught, from the daemon to the worker.
#pragma once

#include <cstdint>

namespace tessera {

// Any other number is kGoesOn.
enum class GateEnd : uint32_t {
  kGoesOn = 0,
  kCaught = 1,        // the audit caught its worker (server/daemon/readings/audit.h)
  kDeleted = 2,       // its vGPU was deleted by force
  kAsked = 3,         // its holder or an administrator has asked for it
  kCaughtMemory = 4,  // as kCaught (server/daemon/readings/memory_audit.h)
};

}  // namespace tessera
