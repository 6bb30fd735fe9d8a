#include "client-stub/nvml/library.h"

#include <cstring>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/first_time.h"
#include "protocol/base/log.h"

namespace tessera {

const Config& GetConfig() { return nvml::TheLibrary().config; }

}  // namespace tessera

namespace tessera::nvml {

Library::Library() {
  SetLogName("tessera");
  SetLogLevel(config.log_level);
}

Library& TheLibrary() {
  static auto* const library = new Library;
  return *library;
}

std::shared_ptr<const DeviceList> List() {
  Library& library = TheLibrary();
  MutexLock lock(library.mutex);
  return library.initialised > 0 ? library.list : nullptr;
}

nvmlReturn_t Find(nvmlDevice_t handle, Found* found) {
  found->list = List();
  if (found->list == nullptr) return NVML_ERROR_UNINITIALIZED;
  found->index = reinterpret_cast<size_t>(handle) - 1;
  if (found->index >= found->list->devices.size()) return NVML_ERROR_INVALID_ARGUMENT;
  found->device = &found->list->devices[found->index];
  return NVML_SUCCESS;
}

nvmlReturn_t NotSupported() { return List() == nullptr ? NVML_ERROR_UNINITIALIZED : NVML_ERROR_NOT_SUPPORTED; }

nvmlReturn_t NotSupported(nvmlDevice_t handle) {
  Found found;
  const nvmlReturn_t result = Find(handle, &found);
  return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;
}

nvmlReturn_t CopyText(const std::string& text, char* out, unsigned length) {
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (text.size() + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return NVML_SUCCESS;
}

nvmlReturn_t State(ServerQuery::Ask ask, size_t device, bool fresh, std::shared_ptr<const DeviceState>* state) {
  const std::shared_ptr<const DeviceList> list = List();
  if (list == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (device >= list->devices.size()) return NVML_ERROR_INVALID_ARGUMENT;
  Library& library = TheLibrary();
  MutexLock lock(library.states_mutex);
  std::shared_ptr<const DeviceState>& one =
      library.states[{ask, ask == ServerQuery::Ask::kState ? list->FirstOfServer(device) : device}];
  if (fresh || one == nullptr || MonotonicNs() - one->read_ns > kStateAgeMaxNs) {
    Result<DeviceState> read = ReadState(*list, ask, device);
    if (!read.ok()) {
      SayOnce(read.status());
      return NVML_ERROR_GPU_IS_LOST;
    }
    one = std::make_shared<const DeviceState>(std::move(read).value());
  }
  *state = one;
  return NVML_SUCCESS;
}

void SayOnce(const Status& status) {
  if (FirstTime("a server cannot be asked")) LogError("{}", status.message());
}

std::string DriverRelease() {
  std::shared_ptr<const DeviceState> state;
  return State(ServerQuery::Ask::kState, 0, false, &state) == NVML_SUCCESS ? state->driver_release : "";
}

}  // namespace tessera::nvml
