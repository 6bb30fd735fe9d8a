#include "client-stub/memory/memory_operations.h"

#include "client-stub/memory/client_memory.h"
#include "client-stub/memory/memory_check.h"
#include "client-stub/session/session.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

// What the driver refuses beside memory that is none.
bool IsManagedOrPooled(ClientMemory& memory, uint64_t address) {
  using Kind = DeviceAllocation::Kind;
  const auto allocation = memory.device().Find(address);
  return allocation && (allocation->kind == Kind::kManaged || allocation->kind == Kind::kPool);
}

bool Reach(BasicCall& call, CUdeviceptr* address, bool waits, bool node) {
  uint64_t reached = *address;
  if (!ReachMemOp(call, &reached, waits, node)) return false;
  *address = reached;
  return true;
}

}  // namespace

bool ReachMemOp(BasicCall& call, uint64_t* address, bool waits, bool node) {
  if (!call.ok()) return false;
  ClientMemory& memory = call.session().memory();
  const Place place = node ? memory.Classify(*address, 1) : CheckMemory(call, *address, 1);
  if (place != Place::kPrivate && node) return true;
  if (place == Place::kPinned || (place == Place::kDevice && !IsManagedOrPooled(memory, *address))) return true;
  if (place != Place::kPrivate) return RefuseMemory(call, *address, 1) == CUDA_SUCCESS;
  const bool is_mirror = !call.session().mirrored() && memory.host().InWindow(*address);
  if (is_mirror) return true;
  if (!waits) return ReachForDevice(call, address);
  LogWarning(
      "{}: the server does not see what this program writes to host memory while a stream waits for it: wait for an "
      "event, or for a value in device memory",
      call.info().name);
  return call.Fail(CUDA_ERROR_NOT_SUPPORTED) == CUDA_SUCCESS;
}

std::vector<CUstreamBatchMemOpParams> ReachMemOps(BasicCall& call, std::span<const CUstreamBatchMemOpParams> operations,
                                                  bool node) {
  std::vector<CUstreamBatchMemOpParams> reached(operations.begin(), operations.end());
  for (CUstreamBatchMemOpParams& one : reached) {
    bool good = call.ok();
    switch (one.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64: good = Reach(call, &one.waitValue.address, true, node); break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64: good = Reach(call, &one.writeValue.address, false, node); break;
      default: break;  // has no address, or is the driver's to know
    }
    if (!good) break;
  }
  return reached;
}

}  // namespace tessera
