// What every session needs of a driver, done once: to find out whether the driver does it where it is (in a sandbox).
#pragma once

#include "generated/driver_table.h"
#include "protocol/base/status.h"

namespace tessera {

// cuInit; on the first device memory, a kernel compiled from PTX and launched, an event, and the kernel's result. Stays after
// cuInit where the device takes one process at a time. kUnavailable: with the name of the call that failed and its error.
Status TryDriver(const DriverTable& driver);

}  // namespace tessera
