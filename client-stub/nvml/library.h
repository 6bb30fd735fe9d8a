// What all entry points of the shim share: whether the library is initialised, its devices, and how they are.
#pragma once

#include <memory>
#include <string>

#include "client-stub/nvml/device_list.h"
#include "client-stub/nvml/nvml_abi.h"
#include "protocol/base/mutex.h"

namespace tessera::nvml {

struct Library {
  Mutex mutex;
  int initialised GUARDED_BY(mutex) = 0;
  std::shared_ptr<const DeviceList> list GUARDED_BY(mutex);
};
// Never destroyed: callers come from exit handlers.
Library& TheLibrary();

// Null while the library is not initialised. Any thread, as everything here.
std::shared_ptr<const DeviceList> List();

// The device of a handle; `*list` keeps it alive. NVML_ERROR_UNINITIALIZED, NVML_ERROR_INVALID_ARGUMENT.
nvmlReturn_t Find(nvmlDevice_t handle, std::shared_ptr<const DeviceList>* list, const Device** device, size_t* index = nullptr);

// For questions about hardware that forwarding does not show: the handle is checked, then "not supported".
nvmlReturn_t NotShown(nvmlDevice_t handle);

// NVML_ERROR_INSUFFICIENT_SIZE when `text` and its end do not fit `length`.
nvmlReturn_t CopyText(const std::string& text, char* out, unsigned length);

// How the devices are. The server's answer is kept for a moment, since tools ask for many readings one after the other;
// `fresh` asks it again in any case. NVML_ERROR_GPU_IS_LOST when the server does not answer any more.
inline constexpr uint64_t kStateAgeMaxNs = 100'000'000;
nvmlReturn_t State(bool fresh, std::shared_ptr<const DeviceState>* state);

// The release of the server's kernel driver; empty when it is not known. Asks once.
std::string DriverRelease();

}  // namespace tessera::nvml
