#include "client-stub/nvml/library.h"

#include <cstring>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"

namespace tessera::nvml {
namespace {

struct Kept {
  Mutex mutex;
  std::shared_ptr<const DeviceState> state GUARDED_BY(mutex);
};

Kept& TheKept() {
  static Kept* kept = new Kept();
  return *kept;
}

}  // namespace

Library& TheLibrary() {
  static Library* library = new Library();
  return *library;
}

std::shared_ptr<const DeviceList> List() {
  Library& library = TheLibrary();
  MutexLock lock(library.mutex);
  return library.initialised > 0 ? library.list : nullptr;
}

nvmlReturn_t Find(nvmlDevice_t handle, std::shared_ptr<const DeviceList>* list, const Device** device, size_t* index) {
  *list = List();
  if (*list == nullptr) return NVML_ERROR_UNINITIALIZED;
  const size_t number = reinterpret_cast<size_t>(handle) - 1;
  if (number >= (*list)->devices.size()) return NVML_ERROR_INVALID_ARGUMENT;
  *device = &(*list)->devices[number];
  if (index != nullptr) *index = number;
  return NVML_SUCCESS;
}

nvmlReturn_t NotShown(nvmlDevice_t handle) {
  std::shared_ptr<const DeviceList> list;
  const Device* device;
  const nvmlReturn_t result = Find(handle, &list, &device);
  return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;
}

nvmlReturn_t CopyText(const std::string& text, char* out, unsigned length) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (text.size() + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

nvmlReturn_t State(bool fresh, std::shared_ptr<const DeviceState>* state) {
  if (List() == nullptr) return NVML_ERROR_UNINITIALIZED;
  Kept& kept = TheKept();
  MutexLock lock(kept.mutex);
  if (fresh || kept.state == nullptr || MonotonicNs() - kept.state->read_ns > kStateAgeMaxNs) {
    Result<DeviceState> read = ReadState();
    if (!read.ok()) {
      LogDebug("{}", read.status().message());
      return NVML_ERROR_GPU_IS_LOST;
    }
    kept.state = std::make_shared<const DeviceState>(std::move(read).value());
  }
  *state = kept.state;
  return NVML_SUCCESS;
}

std::string DriverRelease() {
  std::shared_ptr<const DeviceState> state;
  return State(false, &state) == NVML_SUCCESS ? state->driver_release : "";
}

}  // namespace tessera::nvml
