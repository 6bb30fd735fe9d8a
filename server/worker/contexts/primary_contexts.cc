#include "server/worker/contexts/primary_contexts.h"

#include "generated/driver_table.h"
#include "server/worker/contexts/context_end.h"
#include "server/worker/done_words.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/with_room.h"
#include "server/worker/object_table.h"
#include "server/worker/worker.h"

namespace tessera {

PrimaryContexts::PrimaryContexts(Worker& worker) : worker_(worker), warm_(worker.options().warm_contexts) {}

CUcontext PrimaryContexts::TakeWarm(CUdevice device, bool wanted) {
  const auto found = warm_.find(device);
  if (found == warm_.end()) return nullptr;
  const CUcontext context = found->second;
  warm_.erase(found);
  if (wanted) return context;
  worker_.driver().cuDevicePrimaryCtxRelease_v2(device);
  return nullptr;
}

void PrimaryContexts::EndGreens(HandleId primary) {
  for (const HandleId green : worker_.objects().GreensOf(primary)) {
    uint64_t context = 0;
    if (!worker_.objects().Find(green, &context)) continue;
    PrepareContextEnd(worker_, green, reinterpret_cast<CUcontext>(context));
    FinishContextEnd(worker_, green);
  }
}

CUresult PrimaryContexts::Retain(HandleId id, CUdevice device, unsigned flags) {
  MutexLock lock(mutex_);
  if (held_.contains(device)) return RetainCounted(id, device, flags);
  MemoryLedger& ledger = worker_.parts().memory().charges().ledger();
  if (!ledger.TakeContext(device)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = RetainCounted(id, device, flags);
  if (result == CUDA_SUCCESS) {
    ledger.CountContext(device);
  } else {
    ledger.GiveContext(device);
  }
  return result;
}

CUresult PrimaryContexts::RetainCounted(HandleId id, CUdevice device, unsigned flags) {
  const DriverTable& driver = worker_.driver();
  CUcontext context = nullptr;
  if (!held_.contains(device)) {
    unsigned present = 0;
    int active = 0;
    CUresult result = driver.cuDevicePrimaryCtxGetState(device, &present, &active);
    context = TakeWarm(device, result == CUDA_SUCCESS && present == flags);
    if (result == CUDA_SUCCESS && present != flags) result = driver.cuDevicePrimaryCtxSetFlags_v2(device, flags);
    if (result != CUDA_SUCCESS) return result;
  }
  if (context == nullptr) {
    CUresult result = driver.cuDevicePrimaryCtxRetain(&context, device);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && AskOthersForRoom(worker_, device, 0)) {
      result = driver.cuDevicePrimaryCtxRetain(&context, device);
    }
    if (result != CUDA_SUCCESS) return result;
  }
  if (!worker_.objects().Insert(id, reinterpret_cast<uint64_t>(context))) {
    worker_.End(Status(StatusCode::kProtocolViolation, "a primary context was named by a handle that cannot be"));
  }
  Held& held = held_[device];
  held.id = id;
  held.context = context;
  if (++held.retains == 1) {
    worker_.done_words().BeginContext(context);
    worker_.parts().memory().host_mappings().BeginContext();
  }
  return CUDA_SUCCESS;
}

CUresult PrimaryContexts::Release(CUdevice device) {
  const DriverTable& driver = worker_.driver();
  MutexLock lock(mutex_);
  const auto found = held_.find(device);
  if (found == held_.end()) return CUDA_ERROR_INVALID_CONTEXT;
  Held& held = found->second;
  if (--held.retains > 0) return driver.cuDevicePrimaryCtxRelease_v2(device);
  PrepareContextEnd(worker_, held.id, held.context);
  const CUresult result = driver.cuDevicePrimaryCtxRelease_v2(device);
  worker_.parts().memory().charges().ledger().GiveContext(device);
  FinishContextEnd(worker_, held.id);
  held_.erase(found);
  return result;
}

CUresult PrimaryContexts::Reset(CUdevice device) {
  const DriverTable& driver = worker_.driver();
  MutexLock lock(mutex_);
  const auto found = held_.find(device);
  if (found == held_.end()) {
    TakeWarm(device, false);
    return driver.cuDevicePrimaryCtxReset_v2(device);
  }
  const Held held = found->second;
  EndGreens(held.id);
  PrepareContextEnd(worker_, held.id, held.context);
  const CUresult result = driver.cuDevicePrimaryCtxReset_v2(device);
  // A reset leaves the retains in force; the client counts its own and asks again before the next use.
  for (unsigned i = 0; i < held.retains; ++i) driver.cuDevicePrimaryCtxRelease_v2(device);
  worker_.parts().memory().charges().ledger().GiveContext(device);
  FinishContextEnd(worker_, held.id);
  held_.erase(found);
  return result;
}

}  // namespace tessera
