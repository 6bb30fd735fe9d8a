// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.

#include "generated/driver_names.h"

#include "generated/driver_table.h"

namespace tessera {

static constexpr DriverName kNames[] = {
  {"cuToyCreate", offsetof(DriverTable, cuToyCreate)},
  {"cuToyDestroy", offsetof(DriverTable, cuToyDestroy)},
  {"cuToyDestroyOld", offsetof(DriverTable, cuToyDestroyOld)},
  {"cuToyRename", offsetof(DriverTable, cuToyRename)},
  {"cuToyPlay_v2", offsetof(DriverTable, cuToyPlay_v2)},
  {"cuToyPlay_v2_ptsz", offsetof(DriverTable, cuToyPlay_v2_ptsz)},
  {"cuToyGetColour", offsetof(DriverTable, cuToyGetColour)},
  {"cuToyPaint", offsetof(DriverTable, cuToyPaint)},
  {"cuToyFly", offsetof(DriverTable, cuToyFly)},
  {"cuToyName", offsetof(DriverTable, cuToyName)},
  {"cuToyThrow", offsetof(DriverTable, cuToyThrow)},
  {"cuToyHurl", offsetof(DriverTable, cuToyHurl)},
};

std::span<const DriverName> DriverNames() { return kNames; }

}  // namespace tessera
