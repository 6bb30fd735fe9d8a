// Which rows of a worker's pages (server/gate) its devices have.
#pragma once

#include <vector>

#include "server/gate/gate_page.h"

namespace tessera {

struct DriverTable;  // generated/driver_table.h

inline constexpr int kNoRow = -1;

// By device number; kNoRow for a GPU that the page does not know. Empty where the driver does not say how many there are.
std::vector<int> GateRowsOf(const DriverTable& driver, const GatePage& page);

}  // namespace tessera
