// What all functions of this library share: whether it is initialised, its devices, and their last known state. Any thread may
// call everything here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "client-stub/nvml/device_list.h"
#include "client-stub/nvml/nvml_abi.h"
#include "client-stub/process/config.h"
#include "protocol/base/mutex.h"

namespace tessera::nvml {

// All that this library keeps for the process is in one object. The first call makes it. It is never destroyed, since exit
// handlers call too.
struct Library {
  Library();

  const Config config = ReadConfig();
  Mutex mutex;
  int initialised GUARDED_BY(mutex) = 0;
  std::shared_ptr<const DeviceList> list GUARDED_BY(mutex);
  // The servers' last answers, by question and device.
  Mutex states_mutex;
  std::map<std::pair<ServerQuery::Ask, size_t>, std::shared_ptr<const DeviceState>> states GUARDED_BY(states_mutex);
  // Sets of events (events.cc).
  Mutex event_sets_mutex;
  std::set<uintptr_t> event_sets GUARDED_BY(event_sets_mutex);
  uintptr_t next_event_set GUARDED_BY(event_sets_mutex) = 1;
};
Library& TheLibrary();

// The devices; null: the library is not initialised.
std::shared_ptr<const DeviceList> List();

// A handle is the device's index plus one, so that none is null.
inline nvmlDevice_t HandleOf(size_t index) { return reinterpret_cast<nvmlDevice_t>(index + 1); }

// A device found by its handle; `list` keeps it alive.
struct Found {
  std::shared_ptr<const DeviceList> list;
  const Device* device = nullptr;
  size_t index = 0;
};
// Finds a device. NVML_ERROR_UNINITIALIZED; NVML_ERROR_INVALID_ARGUMENT: there is no such device.
nvmlReturn_t Find(nvmlDevice_t handle, Found* found);

// The answer of a function that is not served: NVML_ERROR_UNINITIALIZED, NVML_ERROR_INVALID_ARGUMENT if there is no such device,
// else NVML_ERROR_NOT_SUPPORTED.
nvmlReturn_t NotSupported();
nvmlReturn_t NotSupported(nvmlDevice_t handle);

// Copies `text` with its NUL. NVML_ERROR_INVALID_ARGUMENT: `out` is null. NVML_ERROR_INSUFFICIENT_SIZE: it does not fit into
// `length` bytes.
nvmlReturn_t CopyText(const std::string& text, char* out, unsigned length);

// Asks the server of `device` for its state (with kState that of all its devices). The answer is kept for kStateAgeMaxNs, since
// tools ask for many readings one after the other; `fresh` asks again in any case. It waits for the server. Errors:
// NVML_ERROR_UNINITIALIZED; NVML_ERROR_INVALID_ARGUMENT for no such device; NVML_ERROR_GPU_IS_LOST, and once a line on stderr, if
// the server does not answer.
inline constexpr uint64_t kStateAgeMaxNs = 100'000'000;
nvmlReturn_t State(ServerQuery::Ask ask, size_t device, bool fresh, std::shared_ptr<const DeviceState>* state);

// Says on stderr that a server cannot be asked. Only the first call does so.
void SayOnce(const Status& status);

// The release of the first server's kernel driver ("580.159.04"); empty: not known. It may ask the server.
std::string DriverRelease();

}  // namespace tessera::nvml
