// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.
// A DriverTable whose functions only report that they were called. For tests; used by RecordingDriver.
#pragma once

#include <span>

#include "generated/driver_table.h"

namespace tessera {

// Every function of the table returns what `called` returns for its position in RecordingNames().
DriverTable MakeRecordingTable(CUresult (*called)(int position));
std::span<const char* const> RecordingNames();

}  // namespace tessera
