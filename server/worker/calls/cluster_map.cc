// The driver's map of multiprocessors to groups for cluster launches, which it hands out in a hidden table.

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "generated/driver_table.h"
#include "generated/messages/service.h"
#include "generated/server_custom.h"
#include "server/worker/call_context.h"
#include "server/worker/driver_slot.h"

namespace tessera {
namespace {

// Table 1734DC26-800D-4745-8726-C0F1E7DD8BCA.
constexpr CUuuid kTable = {{0x17, 0x34, char(0xdc), 0x26, char(0x80), 0x0d, 0x47, 0x45, char(0x87), 0x26, char(0xc0), char(0xf1),
                            char(0xe7), char(0xdd), char(0x8b), char(0xca)}};
constexpr size_t kSlot = 4;
using GetMap = CUresult (*)(uint8_t** order, uint8_t** groups);

}  // namespace

void Do_tesseraClusterMap(CallContext& call, const tesseraClusterMapRequest&) {
  const DriverTable& driver = call.driver();
  const auto get_map = reinterpret_cast<GetMap>(const_cast<void*>(DriverSlot(driver, kTable, kSlot)));
  if (get_map == nullptr) return call.Finish(CUDA_ERROR_NOT_SUPPORTED);
  CUdevice device = 0;
  int multiprocessors = 0;
  CUresult result = driver.cuCtxGetDevice(&device);
  if (result == CUDA_SUCCESS) {
    result = driver.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  }
  if (result != CUDA_SUCCESS) return call.Finish(result);
  // Both stay the driver's or nobody's: who would free them is not known, and each client asks once per device.
  uint8_t* order = nullptr;
  uint8_t* groups = nullptr;
  result = get_map(&order, &groups);
  if (result == CUDA_SUCCESS && (order == nullptr || groups == nullptr)) result = CUDA_ERROR_NOT_SUPPORTED;
  tesseraClusterMapReply reply;
  if (result == CUDA_SUCCESS) {
    const size_t pairs = static_cast<size_t>(multiprocessors) / 2;  // measured: one byte per pair
    reply.order = std::as_bytes(std::span(order, pairs));
    reply.groups = std::as_bytes(std::span(groups, pairs));
  }
  call.Finish(result, reply);
}

}  // namespace tessera
