#include "server/worker/driver_places.h"

#include "protocol/base/log.h"

namespace tessera {
namespace {

// Where memory of pools begins on Linux (0x302000000 was the first seen), and more than the devices of a server have.
constexpr uint64_t kFirstPlace = 0x300000000;
constexpr uint64_t kBytesPerSession = uint64_t{1} << 40;

}  // namespace

void LeavePlacesToEarlierSessions(const DriverTable& driver, uint32_t session_index) {
  if (session_index == 0 || driver.cuMemAddressReserve == nullptr) return;
  const uint64_t bytes = session_index * kBytesPerSession;
  CUdeviceptr address = 0;
  const CUresult result = driver.cuMemAddressReserve(&address, bytes, 0, kFirstPlace, 0);
  if (result == CUDA_SUCCESS && address == kFirstPlace) return;
  if (result == CUDA_SUCCESS) driver.cuMemAddressFree(address, bytes);
  LogInfo("driver does not leave out {} bytes at {:#x} (result {}): pools may meet those of another server", bytes, kFirstPlace,
          static_cast<int>(result));
}

}  // namespace tessera
