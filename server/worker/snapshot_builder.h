// Asks the driver everything that a client wants to know of the devices, once per session.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/wire/device_snapshot.h"

namespace tessera {

struct DriverTable;  // generated/driver_table.h

// The stream priorities of a device. Only a context tells them, and making one takes a good part of a second on a GPU, so
// the daemon asks once at its start and hands them on.
struct StreamPriorities {
  std::array<uint8_t, 16> uuid{};
  int32_t least = 0;
  int32_t greatest = 0;
};
// As an argument of a command line: "UUID:LEAST:GREATEST,...", UUID in 32 hexadecimal digits. Parsing skips what it does
// not understand.
std::string FormatPriorities(const std::vector<StreamPriorities>& priorities);
std::vector<StreamPriorities> ParsePriorities(std::string_view text);

// Asks the driver for the priorities of all devices: retains and releases each one's primary context.
Result<std::vector<StreamPriorities>> AskPriorities(const DriverTable& driver);

// The snapshot, after cuInit. Devices that are not among `known` are asked for their priorities. kNotFound when the driver
// has no device or cannot name one.
Result<DeviceSnapshot> BuildSnapshot(const DriverTable& driver, const std::vector<StreamPriorities>& known);

}  // namespace tessera
