#include "server/worker/printf_flag.h"

#include "server/worker/worker.h"

namespace tessera {

bool PrintsInUse(Worker& worker) { return worker.Part<PrintfFlag>().in_use.load(std::memory_order_acquire); }

bool DriverMustSynchronize(Worker& worker) {
  return PrintsInUse(worker) || worker.Part<PrintfFlag>().frees.load(std::memory_order_acquire);
}

}  // namespace tessera
