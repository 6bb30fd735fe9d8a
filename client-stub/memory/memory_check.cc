#include "client-stub/memory/memory_check.h"

#include <string>

#include "client-stub/process/address_windows.h"
#include "client-stub/process/mapped_pages.h"
#include "client-stub/session/session.h"
#include "generated/client_custom.h"
#include "generated/messages/service.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

const char* NameOf(DeviceAllocation::Kind kind) {
  switch (kind) {
    case DeviceAllocation::Kind::kBlock: return "block";
    case DeviceAllocation::Kind::kPool: return "pool memory";
    case DeviceAllocation::Kind::kMapped: return "mapping";
    case DeviceAllocation::Kind::kGlobal: return "variable";
    case DeviceAllocation::Kind::kGraph: return "graph memory";
    case DeviceAllocation::Kind::kForeign: return "block of another process";
    case DeviceAllocation::Kind::kManaged: return "managed memory";
  }
  return "memory";
}

// The memory at `address`, or else the last below it, in words for the log.
std::string Nearest(ClientMemory& memory, uint64_t address) {
  if (const auto host = memory.host().Find(address)) {
    return fmt::format("{} host memory of {} bytes at {:#x}", host->registered ? "registered" : "pinned", host->range.bytes,
                       host->range.base);
  }
  const auto device = memory.device().FindNearest(address);
  if (!device) return "none";
  return fmt::format("{} of {} bytes at {:#x}", NameOf(device->kind), device->range.bytes, device->range.base);
}

}  // namespace

Place CheckMemory(BasicCall& call, uint64_t address, uint64_t bytes) {
  const Place place = call.session().memory().Classify(address, bytes);
  if (place != Place::kInvalid && (place != Place::kPageable || IsMapped(Range{address, 1}))) return place;
  const auto untold = UntoldMemory(call, address);
  if (!untold) return place;
  return untold->contains(address, bytes) ? Place::kDevice : Place::kInvalid;
}

std::optional<Range> UntoldMemory(BasicCall& call, uint64_t address) {
  ClientMemory& memory = call.session().memory();
  AddressWindows& windows = AddressWindows::Process();
  const bool own = memory.windows().device.contains(address) || windows.IsDriverRange(address);
  if (memory.device().Find(address) || memory.host().InWindow(address) || (!own && IsMapped(Range{address, 1})))
    return std::nullopt;
  BasicCall question(kInfo_cuMemGetAddressRange_v2, call);
  tesseraMemoryAtRequest request;
  request.address = address;
  tesseraMemoryAtReply reply;
  if (question.SyncAs(request, &reply) != CUDA_SUCCESS) return std::nullopt;
  const Range range{reply.base, reply.bytes};
  if (!range.contains(address) || !windows.ReserveDriverRange(range.base, range.bytes, call.session().index())) {
    return std::nullopt;
  }
  return range;
}

CUresult RefuseMemory(BasicCall& call, uint64_t address, uint64_t bytes) {
  LogDebug("{}: {} bytes at {:#x} are no memory that it may use; nearest: {}", call.info().name, bytes, address,
           Nearest(call.session().memory(), address));
  return call.Fail(CUDA_ERROR_INVALID_VALUE);
}

bool ReachForDevice(BasicCall& call, uint64_t* address) {
  ClientMemory& memory = call.session().memory();
  const auto block = memory.host().Find(memory.Translate(*address));
  if (!block) return RefuseMemory(call, *address, 1) == CUDA_SUCCESS;
  CUdeviceptr device = 0;
  if (memory.mirrors().Open(call, *block, memory.Translate(*address), &device) != CUDA_SUCCESS) return false;
  *address = device;
  return true;
}

}  // namespace tessera
