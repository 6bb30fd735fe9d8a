#include "server/worker/gate/gate_rows.h"

#include <cuda.h>

#include <algorithm>
#include <cstring>

#include "generated/driver_table.h"

namespace tessera {

GpuUuid GpuUuidOf(const DriverTable& driver, CUdevice device) {
  // A driver before 11.4 has no second form, as the server's snapshot does not.
  const auto get_uuid = driver.cuDeviceGetUuid_v2 != nullptr ? driver.cuDeviceGetUuid_v2 : driver.cuDeviceGetUuid;
  CUuuid uuid{};
  GpuUuid gpu{};
  if (get_uuid(&uuid, device) == CUDA_SUCCESS) std::memcpy(gpu.data(), uuid.bytes, gpu.size());
  return gpu;
}

std::vector<int> GateRowsOf(const DriverTable& driver, const GatePage& page) {
  int count = 0;
  if (driver.cuDeviceGetCount(&count) != CUDA_SUCCESS) return {};
  std::vector<int> rows(count, kNoRow);
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    if (driver.cuDeviceGet(&device, i) != CUDA_SUCCESS) continue;
    const GpuUuid gpu = GpuUuidOf(driver, device);
    for (uint32_t row = 0; row < std::min<uint32_t>(page.row_count, kGateRowsMax); ++row) {
      if (std::memcmp(page.rows[row].uuid, gpu.data(), gpu.size()) == 0) rows[i] = static_cast<int>(row);
    }
  }
  return rows;
}

}  // namespace tessera
