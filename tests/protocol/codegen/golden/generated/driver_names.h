// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.
#pragma once

#include <cstddef>
#include <span>

namespace tessera {

// The exported name that belongs in the DriverTable's pointer at this byte offset.
struct DriverName {
  const char* name;
  size_t offset;
};
std::span<const DriverName> DriverNames();

}  // namespace tessera
