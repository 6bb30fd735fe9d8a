#include "server/worker/code/image_charge.h"

#include <algorithm>

#include "generated/driver_table.h"
#include "server/worker/call_context.h"
#include "server/worker/code/driver_image.h"
#include "server/worker/code/variable_bytes.h"
#include "server/worker/memory/session_memory.h"
#include "server/worker/memory/with_room.h"
#include "server/worker/worker.h"

namespace tessera {
namespace {

uint32_t CapabilityOf(const DriverTable& driver, CUdevice device) {
  int major = 0, minor = 0;
  driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  return static_cast<uint32_t>(major * 10 + minor);
}

}  // namespace

CUresult LoadCharged(CallContext& call, const DriverImage& image, HandleId owner, const std::function<CUresult()>& load) {
  Charges& charges = call.worker().parts().memory().charges();
  // A library may be loaded before there is a context.
  const CUdevice device = std::max(CurrentDevice(call), 0);
  if (!charges.ledger().limited(device)) return load();
  const auto [bytes, code_bytes] = BytesOfImage(image.parts(), CapabilityOf(call.driver(), device));
  // Before the driver has it.
  charges.ledger().CountCode(device, code_bytes);
  const CUresult result = WithRoom(call.worker(), device, bytes, [&, bytes = bytes] {
    return Charged(charges.ledger(), device, MemoryKind::kVariables, bytes, load);
  });
  if (result == CUDA_SUCCESS)
    charges.objects().Keep(owner.value(), HeldMemory(charges.ledger(), device, MemoryKind::kVariables, bytes));
  return result;
}

}  // namespace tessera
