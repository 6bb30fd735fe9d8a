// What all entry points of the shim share: whether the library is initialised, its devices, and how they are.
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

// Whatever the shim keeps for the whole process: one object, made by the first call and never destroyed, since callers come from
// exit handlers.
struct Library {
  Library();

  const Config config = ReadConfig();
  Mutex mutex;
  int initialised GUARDED_BY(mutex) = 0;
  std::shared_ptr<const DeviceList> list GUARDED_BY(mutex);
  // Answers of servers, by question and device.
  Mutex states_mutex;
  std::map<std::pair<ServerQuery::Ask, size_t>, std::shared_ptr<const DeviceState>> states GUARDED_BY(states_mutex);
  // Sets of events (events.cc).
  Mutex event_sets_mutex;
  std::set<uintptr_t> event_sets GUARDED_BY(event_sets_mutex);
  uintptr_t next_event_set GUARDED_BY(event_sets_mutex) = 1;
};
Library& TheLibrary();

// Null while the library is not initialised. Any thread, as everything here.
std::shared_ptr<const DeviceList> List();

// A handle is the device's number plus one, so that none is null.
inline nvmlDevice_t HandleOf(size_t index) { return reinterpret_cast<nvmlDevice_t>(index + 1); }

// A device found by its handle; `list` keeps it alive.
struct Found {
  std::shared_ptr<const DeviceList> list;
  const Device* device = nullptr;
  size_t index = 0;
};
// NVML_ERROR_UNINITIALIZED, NVML_ERROR_INVALID_ARGUMENT when there is no such device.
nvmlReturn_t Find(nvmlDevice_t handle, Found* found);

// Answers of functions that are not served: only what comes before (the library is initialised, the handle one of a device)
// is checked, then it is NVML_ERROR_NOT_SUPPORTED.
nvmlReturn_t NotSupported();
nvmlReturn_t NotSupported(nvmlDevice_t handle);

// NVML_ERROR_INSUFFICIENT_SIZE when `text` and its end do not fit `length`.
nvmlReturn_t CopyText(const std::string& text, char* out, unsigned length);

// What its server tells of `device` (of all that it has, with kState). The answer is kept for a moment, since tools ask for
// many readings one after the other; `fresh` asks again in any case. NVML_ERROR_UNINITIALIZED, NVML_ERROR_GPU_IS_LOST when the
// server does not answer any more: one sentence on stderr says so, once.
inline constexpr uint64_t kStateAgeMaxNs = 100'000'000;
nvmlReturn_t State(ServerQuery::Ask ask, size_t device, bool fresh, std::shared_ptr<const DeviceState>* state);

// One line on stderr about a server that cannot be asked, the first time.
void SayOnce(const Status& status);

// The release of the server's kernel driver; empty when it is not known.
std::string DriverRelease();

}  // namespace tessera::nvml
