// Sets of events. No server reports events, so a set stays empty, and whoever waits for an event waits until the time is up. The
// functions are needed all the same: nvidia-smi makes a set before it prints anything.

#include <time.h>

#include "client-stub/nvml/library.h"
#include "client-stub/nvml/nvml_abi.h"
#include "protocol/base/mutex.h"

using tessera::MutexLock;
using tessera::nvml::Find;
using tessera::nvml::Found;
using tessera::nvml::Library;
using tessera::nvml::List;
using tessera::nvml::TheLibrary;

namespace {

// NVML_ERROR_UNINITIALIZED; NVML_ERROR_INVALID_ARGUMENT: there is no such set.
nvmlReturn_t FindSet(nvmlEventSet_t set) {
  if (List() == nullptr) return NVML_ERROR_UNINITIALIZED;
  Library& library = TheLibrary();
  MutexLock lock(library.event_sets_mutex);
  return library.event_sets.contains(reinterpret_cast<uintptr_t>(set)) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t WaitInVain(nvmlEventSet_t set, const void* data, unsigned timeout_ms) {
  if (const nvmlReturn_t result = FindSet(set); result != NVML_SUCCESS) return result;
  if (data == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const timespec pause{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000L};
  nanosleep(&pause, nullptr);
  return NVML_ERROR_TIMEOUT;
}

}  // namespace

NVML_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  if (List() == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  Library& library = TheLibrary();
  MutexLock lock(library.event_sets_mutex);
  library.event_sets.insert(library.next_event_set);
  *set = reinterpret_cast<nvmlEventSet_t>(library.next_event_set++);
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  if (const nvmlReturn_t result = FindSet(set); result != NVML_SUCCESS) return result;
  Library& library = TheLibrary();
  MutexLock lock(library.event_sets_mutex);
  library.event_sets.erase(reinterpret_cast<uintptr_t>(set));
  return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, void* data, unsigned timeout_ms) {
  return WaitInVain(set, data, timeout_ms);
}
NVML_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, void* data, unsigned timeout_ms) {
  return WaitInVain(set, data, timeout_ms);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long* types) {
  Found found;
  if (const nvmlReturn_t result = Find(device, &found); result != NVML_SUCCESS) return result;
  if (types == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *types = 0;
  return NVML_SUCCESS;
}
