// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.

#include "generated/client/proc_address_table.h"

#include <cuda.h>
#include <cudaProfiler.h>

namespace tessera {

namespace {

template <typename Function>
void* AsPointer(Function* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

std::span<const ProcAddress> ProcAddresses() {
  static const ProcAddress rows[] = {
    {"cuToyCreate", 1000, AsPointer(&::cuToyCreate), 0, nullptr},
    {"cuToyDestroy", 1000, AsPointer(&::cuToyDestroy), 0, nullptr},
    {"cuToyDestroyOld", 900, AsPointer(&::cuToyDestroyOld), 0, nullptr},
    {"cuToyFly", 1000, AsPointer(&::cuToyFly), 0, nullptr},
    {"cuToyGetColour", 1000, AsPointer(&::cuToyGetColour), 0, nullptr},
    {"cuToyHurl", 1000, AsPointer(&::cuToyHurl), 0, nullptr},
    {"cuToyName", 1000, AsPointer(&::cuToyName), 0, nullptr},
    {"cuToyPaint", 1000, AsPointer(&::cuToyPaint), 0, nullptr},
    {"cuToyPlay", 1200, AsPointer(&::cuToyPlay_v2), 1300, AsPointer(&::cuToyPlay_v2_ptsz)},
    {"cuToyRename", 1000, AsPointer(&::cuToyRename), 0, nullptr},
    {"cuToyThrow", 1000, AsPointer(&::cuToyThrow), 0, nullptr},
  };
  return rows;
}

}  // namespace tessera
