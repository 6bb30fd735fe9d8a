// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.
// The driver's functions as the worker calls them: null where the loaded driver lacks one. Filled once by
// server/driver/loader (or a test), constant afterwards; any thread may read it.
#pragma once

#include <cuda.h>
#include <cudaProfiler.h>

namespace tessera {

struct DriverTable {
  decltype(&::cuToyCreate) cuToyCreate = nullptr;
  decltype(&::cuToyDestroy) cuToyDestroy = nullptr;
  decltype(&::cuToyDestroyOld) cuToyDestroyOld = nullptr;
  decltype(&::cuToyRename) cuToyRename = nullptr;
  decltype(&::cuToyPlay_v2) cuToyPlay_v2 = nullptr;
  decltype(&::cuToyPlay_v2_ptsz) cuToyPlay_v2_ptsz = nullptr;
  decltype(&::cuToyGetColour) cuToyGetColour = nullptr;
  decltype(&::cuToyPaint) cuToyPaint = nullptr;
  decltype(&::cuToyFly) cuToyFly = nullptr;
  decltype(&::cuToyName) cuToyName = nullptr;
  decltype(&::cuToyThrow) cuToyThrow = nullptr;
  decltype(&::cuToyHurl) cuToyHurl = nullptr;
};

}  // namespace tessera
