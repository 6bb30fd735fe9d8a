// There is no profiler to switch on and off, as natively without one attached.
#include "server/emulator/driver/core/state.h"

// Exported, as api.h does it.
#pragma GCC visibility push(default)
#include <cudaProfiler.h>
#pragma GCC visibility pop

using namespace tessera::emulator;

CUresult cuProfilerStart(void) {
  ContextPtr context;
  return EnterContext(&context);
}

CUresult cuProfilerStop(void) {
  ContextPtr context;
  return EnterContext(&context);
}
